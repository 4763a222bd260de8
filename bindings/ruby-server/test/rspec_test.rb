# frozen_string_literal: true

require_relative "test_helper"

class RSpecTest < Minitest::Test
  def test_tagged_examples_have_a_server_each
    begin
      require "rspec/core/version"
    rescue LoadError
      skip "rspec-core is not installed"
    end
    output, status = PunctualTest.run(<<~'RUBY')
      require "punctual/rspec"
      require "socket"
      ports = []
      group = RSpec.describe("sessions", :punctual) do
        2.times do |i|
          it "end on time #{i}" do
            ports << punctual_server.port
            TCPSocket.open("127.0.0.1", punctual_server.port) do |socket|
              socket.write("set session alice ex 1800\r\n")
              raise unless socket.gets == "+OK\r\n"
              punctual_server.advance(1800)
              socket.write("exists session\r\n")
              raise unless socket.gets == ":0\r\n"
            end
          end
        end
      end
      plain = RSpec.describe("others") { it("have none") { raise if respond_to?(:punctual_server) } }
      passed = [group, plain].map { |one| one.run(RSpec::Core::NullReporter) }
      closed = ports.map { |port| TCPSocket.open("127.0.0.1", port) && false rescue true }
      print [passed, closed.all?, ports.size].inspect
    RUBY
    assert_equal ["[[true, true], true, 2]", true], [output, status.success?]
  end
end
