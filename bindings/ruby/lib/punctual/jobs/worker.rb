# frozen_string_literal: true

module Punctual
  module Jobs
    # Calls a block for each job of some queues, in several threads. The queues are served in the
    # order of `queues`.
    #
    # Each thread has its own connection, on which it waits for jobs. One more thread renews the
    # leases of running jobs. A thread that loses its connection connects again.
    class Worker
      # Longest wait of one JOB TAKE, in milliseconds, after which a thread checks whether it was
      # stopped.
      BLOCK = 1000
      # Pause in seconds after a lost connection.
      PAUSE = 1
      SIGNALS = %w[TERM INT].freeze
      private_constant :BLOCK, :PAUSE, :SIGNALS

      # @param queues [Array<String>]
      # @param connect [#call] returns a new Redis client; called for each thread, and after a
      #   connection was lost. The client's timeout for replies must be longer than a second.
      # @param threads [Integer] number of jobs that run at the same time
      # @param lease [Numeric] seconds after which another worker may take a job if this one dies
      # @param grace [Numeric] seconds for which a worker that stops waits for its running jobs
      # @yieldparam job [Job]
      def initialize(queues, connect:, threads: 1, lease: 30, grace: 25, &handle)
        raise ArgumentError, "queues must be an array of one or more names" unless queues.is_a?(Array) && queues.any?
        raise ArgumentError, "a worker needs a block" unless handle

        @queues = queues
        @connect = connect
        @threads = threads
        @lease = lease
        @grace = grace
        @handle = handle
        @lock = Mutex.new
        # The running jobs, by thread.
        @running = {}
        @stopped = false
        # The first element ends `run`: nil for `stop`, or the error of a thread. A signal handler
        # may push to a queue, but must not lock a mutex.
        @ends = Thread::Queue.new
      end

      # Makes {#run} return as soon as the running jobs are done, or `grace` seconds later.
      #
      # @return [nil]
      def stop
        @ends << nil
        nil
      end

      # Takes and runs jobs until {#stop} is called. In the main thread, SIGTERM and SIGINT call it.
      # If jobs have not ended after `grace` seconds, their threads are killed and their attempts
      # have failed.
      #
      # @return [nil]
      # @raise [StandardError] if the server refuses JOB TAKE: it does not know the command, or a
      #   key is not a queue
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
        # A thread without a job ends by itself. It must not be killed: a reply with a job may be on
        # its way.
        threads.each { |thread| thread.join(0.01) until !thread.alive? || (monotonic > ends && job_of(thread)) }
        late = threads.select(&:alive?)
        jobs = late.filter_map { |thread| job_of(thread) }
        late.each(&:kill).each(&:join)
        return if jobs.empty?

        client = connected
        jobs.each { |job| client.call("JOB", "NACK", job.queue, job.id, job.token, "ERROR", "the worker stopped") }
      rescue StandardError => e
        # Without JOB NACK, the leases of the jobs expire.
        raise unless lost?(e)
      end

      def monotonic
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def job_of(thread)
        @lock.synchronize { @running[thread] }
      end

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
        Job.new(queue: queue, id: id, token: token, attempt: attempt, due: ::Time.at(0, due, :millisecond), payload: payload)
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

      # Renews the leases of all running jobs, three times per lease.
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

      # Returns true if the error means that the connection is lost. The clients' gems may not be
      # loaded.
      def lost?(error)
        kinds = [SystemCallError, IOError]
        kinds << ::Redis::BaseConnectionError if defined?(::Redis::BaseConnectionError)
        kinds << ::RedisClient::ConnectionError if defined?(::RedisClient::ConnectionError)
        kinds.any? { |kind| error.is_a?(kind) }
      end
    end
  end
end
