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
      # @param payload [String] @param id [String, nil] 1 to 512 bytes; without one the server
      # chooses a number @param priority [Integer, nil] the greatest is first @param retry [Integer,
      # nil] attempts after the first one; 25 by default @param backoff [(Numeric, Numeric), nil]
      # the time between two attempts: the first one, doubled with each attempt, at
      #   most the second one
      # @param jitter [Integer, nil] the time between two attempts is shorter by up to so many
      # percent @param dead [String, nil] the queue where the job goes after its last attempt @param
      # times [Numeric, ::Time] `delay:` or `at:`: when it is due; `unique:`: the ID stays taken so
      # long; `lease:`, `ttl:`,
      #   `keep:` as in docs/jobs.md
      # @return [String, nil] the job's ID; nil if it is taken
      def add(payload, id: nil, priority: nil, retry: nil, backoff: nil, jitter: nil, dead: nil, **times)
        unknown = times.keys - TIMES
        raise ArgumentError, "no option of a job: #{unknown.join(", ")}" unless unknown.empty?

        # `retry` is a word of the language.
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
