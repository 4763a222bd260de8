# frozen_string_literal: true

require "rake"
require "rbconfig"
require_relative "ruby_api"

# The rake task `compile`, which builds an extension in Rust into the gem's `lib`, in the folder for
# this version of Ruby, and records Ruby's C API for installations without libclang.
module CargoTask
  extend Rake::DSL

  ROOT = File.expand_path("../../..", __dir__)
  FOLDER = "lib/punctual/#{RUBY_VERSION[/\d+\.\d+/]}".freeze

  # @param crate [String] the folder with Cargo.toml
  # @param library [String] name of the crate's library
  # @param extension [String] name of the extension's file, without its ending
  def self.define(crate, library:, extension:)
    extension = File.join(FOLDER, "#{extension}.#{RbConfig::CONFIG["DLEXT"]}")
    desc "Builds the native extension into #{FOLDER}/"
    task :compile do
      target = ENV.fetch("CARGO_TARGET_DIR") { File.join(ROOT, "target", "ruby") }
      sh({ "CARGO_TARGET_DIR" => target, "RUBY" => RbConfig.ruby },
         "cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", File.join(crate, "Cargo.toml"))
      ending = RbConfig::CONFIG["host_os"].include?("darwin") ? "dylib" : "so"
      replace(File.join(target, "release", "lib#{library}.#{ending}"), extension)
      RubyApi.new(crate).record(target)
    end
  end

  # A running Ruby may have loaded the file, so it is replaced by a new file, not overwritten.
  def self.replace(built, extension)
    return if File.exist?(extension) && FileUtils.identical?(built, extension)

    mkdir_p File.dirname(extension), verbose: false
    cp built, "#{extension}.new", verbose: false
    mv "#{extension}.new", extension, verbose: false
  end

  # Defines the tasks `gem` and `gem:prebuilt`, which build the gem into the checkout's target/.
  def self.define_gems(gemspec)
    name = File.basename(gemspec, ".gemspec")
    desc "Builds the source gem into the checkout's target/"
    task(gem: :compile) { gem gemspec, "#{name}.gem" }
    desc "Builds a gem with the compiled extension, for this platform and this version of Ruby"
    task("gem:prebuilt" => :compile) { gem gemspec, "#{name}-prebuilt.gem", "PUNCTUAL_PREBUILT" => "1" }
  end

  def self.gem(gemspec, file, environment = {})
    mkdir_p File.join(ROOT, "target"), verbose: false
    sh environment, "gem", "build", "--silent", "-C", ROOT, gemspec, "-o", "target/#{file}"
  end
end
