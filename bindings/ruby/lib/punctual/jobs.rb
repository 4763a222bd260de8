# frozen_string_literal: true

require_relative "jobs/queue"
require_relative "jobs/worker"

module Punctual
  # Queues of jobs and their workers, over a Redis client that is connected to a Punctual server. A
  # client is any object with a method `call`: `Redis` of redis-rb, or `RedisClient`.
  #
  # A job is leased to one worker at a time. It is tried again if its block raises, or if the worker
  # dies; docs/jobs.md in the repository has the rules. This module does not need the native
  # extension.
  #
  # @example
  #   Punctual::Jobs::Queue.new(Redis.new, "mails").add("welcome:17", delay: 60)
  #
  #   worker = Punctual::Jobs::Worker.new(["mails"], threads: 4, connect: -> { Redis.new }) do |job|
  #     puts job.payload
  #   end
  #   worker.run # until SIGTERM or SIGINT
  module Jobs
    # A job that a worker has taken. `token` identifies the lease, `attempt` counts from 1, and
    # `due` is the time at which the attempt was due.
    Job = Struct.new(:queue, :id, :token, :attempt, :due, :payload, keyword_init: true)

    # A job's block raises it to have the job tried again: after `delay` seconds, or after the job's
    # own backoff.
    class RetryError < StandardError
      # @return [Numeric, nil] seconds
      attr_reader :delay

      # @param message [String] the server stores it as the job's error
      # @param delay [Numeric, nil] seconds
      def initialize(message = "try again", delay: nil)
        super(message)
        @delay = delay
      end
    end

    # @param seconds [Numeric, ::Time]
    # @return [Integer] milliseconds
    # @api private
    def self.ms(seconds)
      (seconds.to_r * 1000).round
    end
  end
end
