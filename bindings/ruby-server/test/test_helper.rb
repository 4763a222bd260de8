# frozen_string_literal: true

require_relative "../../ruby/test/test_helper"
require "punctual/server"

PunctualTest.add_library File.expand_path("../lib", __dir__)
