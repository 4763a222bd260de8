# frozen_string_literal: true

module Punctual
  module Jobs
    # Adds jobs to a queue.
    class Queue
      TIMES = %i[unique delay at lease ttl keep].freeze
      private_constant :TIMES

      # @param client [#call] a Redis client
      # @param name [String]
      def initialize(client, name)
        @client = client
        @name = name
      end

      # Adds a job. Times are numbers of seconds, which are rounded to milliseconds.
      #
      # @param payload [String]
      # @param id [String, nil] 1 to 512 bytes; without an ID the server chooses a number
      # @param priority [Integer, nil] jobs with a greater priority come first
      # @param retry [Integer, nil] number of attempts after the first one; 25 by default
      # @param backoff [(Numeric, Numeric), nil] the time before the second attempt, which doubles
      #   with each attempt, and its maximum
      # @param jitter [Integer, nil] shortens the time between two attempts by up to this percentage
      # @param dead [String, nil] the queue to which the job moves after its last attempt has failed
      # @param times [Numeric, ::Time] `delay:` or `at:`, the time at which the job is due;
      #   `unique:`, the time for which no other job can have the ID; `lease:`, `ttl:` and `keep:` as in
      #   docs/jobs.md
      # @return [String, nil] the job's ID; nil if a job with this ID exists
      def add(payload, id: nil, priority: nil, retry: nil, backoff: nil, jitter: nil, dead: nil, **times)
        unknown = times.keys - TIMES
        raise ArgumentError, "unknown option of a job: #{unknown.join(", ")}" unless unknown.empty?

        # `retry` is a keyword of Ruby, so the argument needs this detour.
        attempts = binding.local_variable_get(:retry)
        words = { ID: id, PRIORITY: priority, RETRY: attempts, DEAD: dead }.compact
        times.compact.each { |name, seconds| words[name.upcase] = Jobs.ms(seconds) }
        words = words.flat_map { |name, value| [name.to_s, value.to_s] }
        words += ["BACKOFF", *backoff.map { |seconds| Jobs.ms(seconds).to_s }] if backoff
        words += ["JITTER", jitter.to_s] if jitter
        @client.call("JOB", "ADD", @name, payload, *words)
      end
    end
  end
end
