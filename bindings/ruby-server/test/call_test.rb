# frozen_string_literal: true

require_relative "test_helper"
require "timeout"

class CallTest < Minitest::Test
  def test_replies_have_the_types_of_resp3
    Punctual::Server.open do |server|
      client = server.client
      assert_equal "OK", client.call("SET", :k, "v")
      assert_equal "v", client.call("GET", "k")
      assert_nil client.call("GET", "none")
      assert_equal 41, client.call("INCRBY", "n", 41)
      client.call("HSET", "h", "f", "v")
      assert_equal({ "f" => "v" }, client.call("HGETALL", "h"))
      client.call("ZADD", "z", 1.5, "m")
      assert_in_delta 1.5, client.call("ZSCORE", "z", "m")
      assert_equal "v", server.call("GET", "k")
    end
  end

  def test_errors_are_exceptions
    Punctual::Server.open do |server|
      client = server.client
      client.call("SET", "k", "v")
      error = assert_raises(Punctual::Server::CommandError) { client.call("INCR", "k") }
      assert_match(/\AERR value is not an integer/, error.message)
      assert_raises(ArgumentError) { client.call("MONITOR") }
      assert_raises(ArgumentError) { client.call }
      assert_raises(TypeError) { client.call("GET", Object.new) }
      first, second = client.pipeline([%w[INCR k], %w[GET k]])
      assert_kind_of Punctual::Server::CommandError, first
      assert_equal "v", second
    end
  end

  def test_a_blocking_call_lets_other_threads_run
    Punctual::Server.open do |server|
      popped = Thread.new { server.client.call("BLPOP", "list", 0) }
      server.call("RPUSH", "list", "a")
      assert_equal %w[list a], popped.value
    end
  end

  def test_an_interrupt_ends_a_wait
    Punctual::Server.open do |server|
      client = server.client
      waiting = Thread.new { client.call("BLPOP", "list", 0) }
      waiting.report_on_exception = false
      Thread.pass until server.call("INFO", "clients").include?("blocked_clients:1")
      waiting.kill
      assert_nil waiting.value
      assert_raises(RuntimeError) { client.call("PING") }
      assert_equal "PONG", server.call("PING")
    end
  end

  def test_messages_of_a_subscription
    Punctual::Server.open(clock: :virtual, notify_keyspace_events: "Ex") do |server|
      client = server.client
      client.call("SUBSCRIBE", "__keyevent@0__:expired")
      assert_nil client.message(0)
      server.call("SET", "k", "v", "PX", 100)
      server.advance(0.1)
      assert_equal ["message", "__keyevent@0__:expired", "k"], client.message
    end
  end
end
