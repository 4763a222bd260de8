# frozen_string_literal: true

module Punctual
  module Jobs
    # Calls a block for each job of some queues, in threads. Queues that are named first come first.
    #
    # Each thread has a connection, on which it waits for a job, and one more thread renews the
    # leases of the jobs that run. A lost connection is made again.
    class Worker
      # Longest wait for a job, in milliseconds, after which a thread looks whether it was stopped.
      BLOCK = 1000
      # Seconds before another attempt to connect.
      PAUSE = 1
      SIGNALS = %w[TERM INT].freeze
      private_constant :BLOCK, :PAUSE, :SIGNALS

      # @param queues [Array<String>] @param connect [#call] returns a new Redis client; called for
      # each thread, and after a connection was lost. Its time
      #   limit for replies must be longer than a second.
      # @param threads [Integer] jobs that run at the same time
      # @param lease [Numeric] seconds after which another worker gets a job if this one is gone
      # @param grace [Numeric] seconds that jobs have to end when the worker stops
      # @yieldparam job [Job]
      def initialize(queues, connect:, threads: 1, lease: 30, grace: 25, &handle)
        raise ArgumentError, "a worker needs queues, which are an array" unless queues.is_a?(Array) && queues.any?
        raise ArgumentError, "a worker needs a block" unless handle

        @queues = queues
        @connect = connect
        @threads = threads
        @lease = lease
        @grace = grace
        @handle = handle
        @lock = Mutex.new
        # The jobs that run, by their threads.
        @running = {}
        @stopped = false
        # What ends `run`: nil, or the error of a thread. A signal's handler may push, but not lock
        # a mutex.
        @ends = Thread::Queue.new
      end

      # Lets {#run} return as soon as the jobs that run are done.
      #
      # @return [nil]
      def stop
        @ends << nil
        nil
      end

      # Works until {#stop}. In the main thread, SIGTERM and SIGINT call that. Jobs that have not
      # ended after the grace are given up, which counts as a failed attempt, and their threads are
      # killed.
      #
      # @return [nil]
      # @raise [StandardError] the server refuses JOB TAKE: it has no jobs, or a key is no queue
      def run
        error = nil
        with_signals do
          threads = Array.new(@threads) { Thread.new { work } }
          renewer = Thread.new { renew }
          error = @ends.pop
          @stopped = true
          finish(threads)
          renewer.kill.join
        end
        raise error if error
      end

      private

      def with_signals
        return yield unless Thread.current == Thread.main

        begin
          before = SIGNALS.to_h { |name| [name, trap(name) { stop }] }
          yield
        ensure
          before&.each { |name, handler| trap(name, handler || "DEFAULT") }
        end
      end

      def finish(threads)
        ends = monotonic + @grace
        # A thread without a job ends by itself, and must not be killed: a reply on its way may have
        # a job.
        threads.each { |thread| thread.join(0.01) until !thread.alive? || (monotonic > ends && job_of(thread)) }
        late = threads.select(&:alive?)
        jobs = late.filter_map { |thread| job_of(thread) }
        late.each(&:kill).each(&:join)
        return if jobs.empty?

        client = connected
        jobs.each { |job| client.call("JOB", "NACK", job.queue, job.id, job.token, "ERROR", "the worker stopped") }
      rescue StandardError => e
        # The leases end by themselves.
        raise unless lost?(e)
      end

      def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      def job_of(thread) = @lock.synchronize { @running[thread] }

      def work
        client = nil
        until @stopped
          begin
            client ||= connected
            words = ["BLOCK", BLOCK.to_s, "LEASE", Jobs.ms(@lease).to_s]
            taken = client.call("JOB", "TAKE", *@queues, *words)
            taken&.each { |fields| perform(client, job(*fields)) }
          rescue StandardError => e
            raise unless lost?(e)

            client = nil
            sleep(PAUSE) unless @stopped
          end
        end
      rescue StandardError => e
        @ends << e
      end

      def job(queue, id, token, attempt, due, payload)
        Job.new(queue:, id:, token:, attempt:, due: ::Time.at(0, due, :millisecond), payload:)
      end

      def perform(client, job)
        @lock.synchronize { @running[Thread.current] = job }
        words =
          begin
            @handle.call(job)
            ["ACK", job.queue, job.id, job.token]
          rescue StandardError => e
            delay = e.is_a?(RetryError) && e.delay ? ["DELAY", Jobs.ms(e.delay)] : []
            ["NACK", job.queue, job.id, job.token, *delay, "ERROR", "#{e.class}: #{e.message}"]
          end
        client.call("JOB", *words.map(&:to_s))
      ensure
        @lock.synchronize { @running.delete(Thread.current) }
      end

      # Renews the leases of all jobs that run, three times a lease.
      def renew
        client = nil
        loop do
          sleep(@lease / 3.0)
          @lock.synchronize { @running.values }.each do |job|
            client ||= connected
            client.call("JOB", "TOUCH", job.queue, job.id, job.token.to_s, "LEASE", Jobs.ms(@lease).to_s)
          end
        rescue StandardError => e
          @ends << e unless lost?(e)
          client = nil
        end
      end

      def connected
        @connect.call
      end

      # Whether a new connection may help. The gems need not be there.
      def lost?(error)
        kinds = [SystemCallError, IOError]
        kinds << ::Redis::BaseConnectionError if defined?(::Redis::BaseConnectionError)
        kinds << ::RedisClient::ConnectionError if defined?(::RedisClient::ConnectionError)
        kinds.any? { |kind| error.is_a?(kind) }
      end
    end
  end
end
