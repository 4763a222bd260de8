# frozen_string_literal: true

require_relative "readme_examples"

class ReadmeTest < Minitest::Test
  ReadmeExamples.define(self, File.expand_path("../README.md", __dir__))
end
