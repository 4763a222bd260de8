# frozen_string_literal: true

require_relative "test_helper"

# Runs the README's examples. A comment `#=> value` is the expected result of its line.
class ReadmeTest < Minitest::Test
  README = File.read(File.expand_path("../README.md", __dir__))

  README.scan(/^```ruby\n(.*?)^```/m).flatten.each_with_index do |example, i|
    define_method("test_example_#{i + 1}") do
      skip "needs the native extension" if example.include?("Punctual::Server") && !Punctual::NATIVE
      example[/^require "redis"/] && installed("redis")
      output, status = PunctualTest.run(checked(example))
      assert_predicate status, :success?, "#{output}\n#{example}"
      assert_equal "", output
    end
  end

  private

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
