# frozen_string_literal: true

require "fileutils"
require "json"
require "rbconfig"

# Ruby's C API as declarations in Rust, for installations of the source gem without libclang.
#
# The build script of the crate rb-sys generates the declarations with libclang. The build of a gem
# records the script's results in `ext/api/<version of rb-sys>/<version of Ruby>/`, which the source
# gem contains. An installation passes them to cargo as the results of the build script (the table
# `target.<triple>.rb` of cargo's configuration), and cargo then neither compiles nor runs the
# script.
#
#   ruby ext/ruby_api.rb FOLDER_OF_THE_CRATE FOLDER_OF_CARGO [FOLDER_OF_THE_RECORD]   # records
class RubyApi
  DECLARATIONS = "declarations.txt"
  RESULTS = "results.txt"
  # The recorded results: conditions for the compiler, and facts about Ruby that other crates need.
  # The rest are paths of the machine.
  KEPT = /\Acargo:(rustc-cfg=|(major|minor|teeny|defines_\w+)=)/
  # The declarations hold for these platforms, whose C types have equal sizes.
  PLATFORMS = /\A(x86_64|aarch64)-[a-z]+-linux/

  # @param crate [String] the folder with Cargo.lock
  # @param root [String] the folder of the records
  def initialize(crate, root: File.join(__dir__, "api"))
    @rb_sys = File.read(File.join(crate, "Cargo.lock"))[/^name = "rb-sys"\nversion = "(.+)"/, 1]
    @root = root
    @folder = File.join(root, @rb_sys, RUBY_VERSION[/\d+\.\d+/])
  end

  # Records what the build script wrote when cargo last built the crate.
  #
  # @param target [String] cargo's folder of results
  def record(target)
    written = Dir[File.join(target, "{,*/}release/build/rb-sys-*/out/bindings-#{@rb_sys}-*-#{RUBY_VERSION}.rs")]
    newest = written.max_by { |path| File.mtime(path) } || abort("#{target} has no declarations of Ruby #{RUBY_VERSION}")
    # Records for other versions of rb-sys are of no use.
    FileUtils.rm_rf(Dir[File.join(@root, "*")] - [File.dirname(@folder)])
    FileUtils.mkdir_p(@folder)
    # The comments are three quarters of the text.
    File.write(File.join(@folder, DECLARATIONS), File.readlines(newest).grep_v(/^\s*#!?\[doc\b.*\]$/).join)
    results = File.readlines(File.expand_path("../../output", newest)).grep(KEPT).map { |line| line.delete_prefix("cargo:") }
    File.write(File.join(@folder, RESULTS), results.sort.uniq.join)
  end

  # Returns cargo's configuration with the recorded results, or nil if libclang is needed: there is
  # no record for this version of Ruby, or this system.
  #
  # @param triple [String] the platform for which cargo builds
  # @return [String, nil]
  def config(triple)
    return unless triple.match?(PLATFORMS) && RUBY_PATCHLEVEL >= 0 && File.exist?(path(RESULTS))

    conditions, facts = File.readlines(path(RESULTS), chomp: true).partition { |line| line.start_with?("rustc-cfg=") }
    <<~TOML
      [target.#{triple}.rb]
      rustc-env = { RB_SYS_BINDINGS_PATH = #{path(DECLARATIONS).to_json} }
      rustc-cfg = #{conditions.map { |line| line.delete_prefix("rustc-cfg=") }.to_json}
      #{facts.map { |fact| fact.sub(/=(.*)/) { " = #{$1.to_json}" } }.join("\n")}
    TOML
  end

  private

  def path(name)
    File.join(@folder, name)
  end
end

if $PROGRAM_NAME == __FILE__
  crate, target, root = ARGV
  RubyApi.new(crate, **(root ? { root: root } : {})).record(target)
end
