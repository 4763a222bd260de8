# frozen_string_literal: true

# Writes a Makefile that builds the native extension with cargo. If that is impossible (no Rust,
# another Ruby than CRuby), writes a Makefile that does nothing, and the gem is pure Ruby.

require "rbconfig"

# Writes the Makefile.
class Makefile
  HERE = __dir__

  def initialize
    @obstacle = obstacle
  end

  def write
    warn "punctual: #{@obstacle}: installing without the native extension, in pure Ruby" if @obstacle
    File.write("Makefile", @obstacle ? idle : building)
  end

  private

  def obstacle
    if RUBY_ENGINE != "ruby" then "#{RUBY_ENGINE} loads no extension in Rust"
    elsif ENV["PUNCTUAL_PURE"] == "1" then "PUNCTUAL_PURE is set"
    elsif !system("cargo", "--version", out: File::NULL, err: File::NULL) then "there is no cargo"
    elsif !File.exist?(File.join(RbConfig::CONFIG["rubyhdrdir"].to_s, "ruby.h")) then "Ruby's headers are not installed"
    end
  end

  def idle
    <<~MAKE
      all install clean:
      \t@true
    MAKE
  end

  # If the build fails, the installation goes on in pure Ruby; with `PUNCTUAL_REQUIRE_NATIVE=1` it
  # fails as well.
  def building
    target = ENV.fetch("CARGO_TARGET_DIR") { File.join(Dir.pwd, "target") }
    <<~MAKE
      CARGO_TARGET_DIR = #{target}
      sitearchdir = #{RbConfig::CONFIG["sitearchdir"]}
      DESTDIR =
      export CARGO_TARGET_DIR
      export RUBY = #{RbConfig.ruby}

      all:
      \t@cargo build --release --locked --manifest-path #{File.join(HERE, "Cargo.toml")} \\
      \t  && cp $(CARGO_TARGET_DIR)/release/#{library} punctual.#{RbConfig::CONFIG["DLEXT"]} \\
      \t  || { echo "punctual: the native extension could not be built; the gem is pure Ruby" >&2; #{on_failure}; }

      install: all
      \t@mkdir -p $(DESTDIR)$(sitearchdir)/punctual
      \t@! test -f punctual.#{RbConfig::CONFIG["DLEXT"]} || cp punctual.#{RbConfig::CONFIG["DLEXT"]} $(DESTDIR)$(sitearchdir)/punctual

      clean:
      \t@rm -rf punctual.#{RbConfig::CONFIG["DLEXT"]}#{" $(CARGO_TARGET_DIR)" unless ENV.key?("CARGO_TARGET_DIR")}
    MAKE
  end

  def on_failure
    ENV["PUNCTUAL_REQUIRE_NATIVE"] == "1" ? "false" : "true"
  end

  def library
    RbConfig::CONFIG["host_os"].include?("darwin") ? "libpunctual_ruby.dylib" : "libpunctual_ruby.so"
  end
end

Makefile.new.write
