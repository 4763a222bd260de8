# frozen_string_literal: true

require "rspec/core"
require_relative "server"

module Punctual
  # For RSpec: each example that is tagged `:punctual`, or whose group is, has its own server, with
  # a virtual clock.
  #
  # @example
  #   require "punctual/rspec"
  #
  #   RSpec.describe "sessions", :punctual do
  #     it "end after half an hour" do
  #       redis = Redis.new(url: punctual_server.url)
  #       redis.set("session", "alice", ex: 1800)
  #       punctual_server.advance(1800)
  #       expect(redis.get("session")).to be_nil
  #     end
  #   end
  module RSpecHelper
    # Returns the example's server. The first call starts it.
    #
    # @return [Server]
    def punctual_server
      @punctual_server ||= Server.new(clock: :virtual).start
    end
  end
end

RSpec.configure do |config|
  config.include Punctual::RSpecHelper, :punctual
  config.after(:each, :punctual) { @punctual_server&.stop }
end
