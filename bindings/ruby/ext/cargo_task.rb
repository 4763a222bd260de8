# frozen_string_literal: true

require "rake"
require "rbconfig"

# The rake task `compile`, which builds an extension in Rust into the gem's `lib`.
module CargoTask
  extend Rake::DSL

  ROOT = File.expand_path("../../..", __dir__)

  # @param crate [String] the folder with Cargo.toml
  # @param library [String] name of the crate's library
  # @param extension [String] path of the built extension, without its ending
  def self.define(crate, library:, extension:)
    extension = "#{extension}.#{RbConfig::CONFIG["DLEXT"]}"
    desc "Builds the native extension into lib/"
    task :compile do
      target = ENV.fetch("CARGO_TARGET_DIR") { File.join(ROOT, "target", "ruby") }
      sh({ "CARGO_TARGET_DIR" => target, "RUBY" => RbConfig.ruby },
         "cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", File.join(crate, "Cargo.toml"))
      ending = RbConfig::CONFIG["host_os"].include?("darwin") ? "dylib" : "so"
      replace(File.join(target, "release", "lib#{library}.#{ending}"), extension)
    end
  end

  # A running Ruby may have loaded the file, so it is replaced by a new file, not overwritten.
  def self.replace(built, extension)
    return if File.exist?(extension) && FileUtils.identical?(built, extension)

    cp built, "#{extension}.new", verbose: false
    mv "#{extension}.new", extension, verbose: false
  end
end
