# frozen_string_literal: true

require_relative "test_helper"

# Runs the examples of a README. A comment `#=> value` is the expected result of its line.
module ReadmeExamples
  # Defines a test for each example of the README at `path`.
  def self.define(test_class, path)
    test_class.include(self)
    File.read(path, encoding: "UTF-8").scan(/^```ruby\n(.*?)^```/m).flatten.each_with_index do |example, i|
      test_class.define_method("test_example_#{i + 1}") { try(example) }
    end
  end

  private

  def try(example)
    example[/^require "redis"/] && installed("redis")
    output, status = PunctualTest.run(checked(example))
    assert_predicate status, :success?, "#{output}\n#{example}"
    assert_equal "", output
  end

  def checked(example)
    lines = example.lines.map do |line|
      line.gsub(/^(\s*)(\S.*?)\s+#=> (.*)$/) do
        "#{$1}_seen = (#{$2}); _seen == (#{$3}) or abort(%q(#{$2}) + ': ' + _seen.inspect)"
      end
    end
    lines.join
  end

  def installed(library)
    require library
  rescue LoadError
    skip "#{library} is not installed"
  end
end
