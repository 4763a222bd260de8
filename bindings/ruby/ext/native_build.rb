# frozen_string_literal: true

require "rbconfig"
require_relative "ruby_api"

# Writes the Makefile of an extension in Rust, which cargo builds. Both gems use it.
#
# If the build is impossible (no Rust, another Ruby than CRuby) or fails, a gem with `fallback` is
# installed in pure Ruby, with a warning in a frame of asterisks. Without `fallback`, or with
# `PUNCTUAL_REQUIRE_NATIVE=1`, the installation fails.
class NativeBuild
  # @param crate [String] the folder with Cargo.toml
  # @param name [String] name of the extension's file, without its ending
  # @param library [String] name of the crate's library
  def initialize(crate, name:, library:, fallback:)
    @crate = crate
    @file = "#{name}.#{RbConfig::CONFIG["DLEXT"]}"
    @built = "lib#{library}.#{RbConfig::CONFIG["host_os"].include?("darwin") ? "dylib" : "so"}"
    @fallback = fallback && ENV["PUNCTUAL_REQUIRE_NATIVE"] != "1"
  end

  def write
    obstacle = self.obstacle
    if obstacle
      shout(warning(obstacle)) unless chosen?
      abort unless @fallback
    end
    File.write("Makefile", obstacle ? idle : building)
  end

  private

  # True if the user asked for pure Ruby: then no warning is due.
  def chosen?
    @fallback && ENV["PUNCTUAL_PURE"] == "1"
  end

  def obstacle
    if RUBY_ENGINE != "ruby" then "#{RUBY_ENGINE} loads no extension in Rust"
    elsif chosen? then "PUNCTUAL_PURE is set"
    elsif !system("cargo", "--version", out: File::NULL, err: File::NULL) then "there is no cargo. Install Rust 1.95 or later"
    elsif !File.exist?(File.join(RbConfig::CONFIG["rubyhdrdir"].to_s, "ruby.h"))
      "Ruby's headers are not installed (Debian: ruby-dev)"
    end
  end

  def warning(reason)
    text = ["The native extension was NOT built: #{reason}."]
    text +=
      if @fallback
        ["The gem punctual is installed in PURE RUBY, which is several times slower.",
         "Punctual.native? returns false. PUNCTUAL_REQUIRE_NATIVE=1 makes the installation",
         "fail instead of falling back."]
      else
        ["The gem is not installed."]
      end
    line = "*" * 80
    [line, *text.map { |one| "* #{one}" }, line].join("\n")
  end

  # RubyGems hides the output of an installation that succeeds, so the text also goes to the
  # terminal.
  def shout(text)
    warn text
    File.write("/dev/tty", "#{text}\n") if @fallback
  rescue SystemCallError
    nil # there is no terminal
  end

  def idle
    <<~MAKE
      all install clean:
      \t@true
    MAKE
  end

  # Returns cargo's option for a build without libclang, or nil if the build needs libclang.
  def without_libclang
    config = RubyApi.new(@crate).config(IO.popen(%w[cargo -vV], &:read)[/^host: (.+)/, 1])
    return unless config

    File.write("ruby-api.toml", config)
    "--config #{File.join(Dir.pwd, "ruby-api.toml")}"
  end

  def building
    target = ENV.fetch("CARGO_TARGET_DIR") { File.join(Dir.pwd, "target") }
    option = without_libclang
    needs = ["Rust 1.95 or later", "a C compiler", ("libclang (Debian: libclang-dev)" unless option)].compact
    File.write("warning.txt", "#{warning("cargo build failed, see above. Install #{needs.join(", ")}")}\n")
    <<~MAKE
      CARGO_TARGET_DIR = #{target}
      sitearchdir = #{RbConfig::CONFIG["sitearchdir"]}
      DESTDIR =
      export CARGO_TARGET_DIR
      export RUBY = #{RbConfig.ruby}

      all:
      \t@cargo build --release --locked --manifest-path #{File.join(@crate, "Cargo.toml")} #{option} \\
      \t  && cp $(CARGO_TARGET_DIR)/release/#{@built} #{@file} \\
      \t  || { cat warning.txt >&2; #{@fallback ? "cp warning.txt /dev/tty 2>/dev/null || true" : "false"}; }

      install: all
      \t@mkdir -p $(DESTDIR)$(sitearchdir)/punctual
      \t@! test -f #{@file} || cp #{@file} $(DESTDIR)$(sitearchdir)/punctual

      clean:
      \t@rm -rf #{@file}#{" $(CARGO_TARGET_DIR)" unless ENV.key?("CARGO_TARGET_DIR")}
    MAKE
  end
end
