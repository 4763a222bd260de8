# frozen_string_literal: true

require "minitest/autorun"
require "punctual"

# Support for several test files.
module PunctualTest
  # PUNCTUAL_REQUIRE_NATIVE=1: the tests must not run in pure Ruby by mistake.
  raise "the native extension is not loaded" if ENV["PUNCTUAL_REQUIRE_NATIVE"] == "1" && !Punctual::NATIVE

  # Seeds of random tests: `PUNCTUAL_SEED=17` repeats one.
  def self.seed
    Integer(ENV.fetch("PUNCTUAL_SEED") { Random.new_seed % 1_000_000 })
  end

  # With PUNCTUAL_INSTALLED=1, the installed gems are tested.
  #
  # @return [Array<String>] the folders from which programs in other processes load the gems
  def self.libraries
    @libraries ||= []
  end

  def self.add_library(folder)
    libraries << folder unless ENV["PUNCTUAL_INSTALLED"] == "1"
  end
  add_library File.expand_path("../lib", __dir__)

  # @return [Array<String>] options of `ruby`
  def self.includes
    libraries.map { |folder| "-I#{folder}" }
  end

  # Runs a program in a separate process. Returns its output and its status.
  def self.run(program, environment = {})
    output = IO.popen([environment, RbConfig.ruby, "-W1", *includes, "-e", program, { err: %i[child out] }], &:read)
    [output, $?]
  end

  # For tests of libraries that may be missing.
  module Needs
    private

    def need(library)
      require library
    rescue LoadError
      skip "#{library} is not installed"
    end
  end
end
