# frozen_string_literal: true

require "minitest"
require_relative "server"

module Punctual
  # For Minitest: each test of a class that includes this module has its own server, with a virtual
  # clock.
  #
  # @example
  #   class SessionTest < Minitest::Test
  #     include Punctual::MinitestHelper
  #
  #     def test_a_session_ends_after_half_an_hour
  #       redis = Redis.new(url: punctual_server.url)
  #       redis.set("session", "alice", ex: 1800)
  #       punctual_server.advance(1800)
  #       assert_nil redis.get("session")
  #     end
  #   end
  module MinitestHelper
    # Returns the test's server. The first call starts it.
    #
    # @return [Server]
    def punctual_server
      @punctual_server ||= Server.new(clock: :virtual).start
    end

    # Stops the server.
    def after_teardown
      @punctual_server&.stop
      super
    end
  end
end
