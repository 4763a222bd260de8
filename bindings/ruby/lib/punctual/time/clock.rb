# frozen_string_literal: true

module Punctual
  module Time
    # A timer driver, and a Ruby thread that fires the driver's due alarms. It calls `fire(clock)`
    # of each alarm's target (a Timer, a Ticker or a pending timeout), which must not block.
    #
    # @api private
    class Clock
      @start = Mutex.new

      class << self
        attr_reader :start

        # Returns the clock in effect: a virtual clock, or the system's clock, which each process
        # creates for itself.
        def current
          @virtual || (@system&.own? ? @system : renew)
        end

        # Puts a virtual clock into effect for the duration of the block.
        def with_virtual
          before = @virtual
          @virtual = VirtualClock.new
          yield @virtual
        ensure
          @virtual = before
        end

        private

        def renew
          @start.synchronize { @system = new unless @system&.own? }
          @system
        end
      end

      def initialize
        @driver = Driver.new(false)
        @delivery = Mutex.new
        @thread = nil
      end

      def own?
        @driver.own?
      end

      def now
        ::Time.now
      end

      def seconds
        @driver.now
      end

      def arm(delay, target)
        start unless @thread&.alive?
        @driver.arm_after(delay, target)
      end

      def arm_at(seconds, target)
        @driver.arm_at(seconds, target)
      end

      # Disarms an alarm. Returns false if it was not armed; then a call of its target's `fire` has
      # ended when this returns.
      def disarm(number)
        return true if @driver.disarm(number)

        @delivery.synchronize { nil } if own? && !@delivery.owned?
        false
      end

      def call(block)
        workers.call(block)
      end

      def size
        @driver.size
      end

      private

      def workers
        @workers ||= Workers.new
      end

      def start
        Clock.start.synchronize do
          return if @thread&.alive?

          @thread = Thread.new { deliver }
          @thread.name = "punctual"
          ThreadGroup::Default.add(@thread)
        end
      end

      def deliver
        loop do
          @driver.wait.each do |number|
            @delivery.synchronize { @driver.take(number)&.fire(self) }
          rescue StandardError => e
            # An exception of one target does not stop the others.
            warn(e.full_message(highlight: false))
          end
        end
      end
    end

    # A clock that moves only when {#advance} is called. Timers fire at their own times, in order,
    # on the thread that calls it, and blocks of `after_func` run on this thread as well.
    #
    # @example A test that does not sleep
    #   Punctual::Time.virtual do |clock|
    #     reminder = Punctual::Time.after(3600)
    #     clock.advance(3600)
    #     reminder.pop
    #   end
    class VirtualClock < Clock
      # @api private
      def initialize
        super
        @driver = Driver.new(true)
        @origin = ::Time.now
      end

      # @return [::Time] the time of the clock
      def now
        @origin + @driver.now
      end

      # @api private
      def arm(delay, target)
        @driver.arm_after(delay, target)
      end

      # @api private
      def disarm(number)
        @driver.disarm(number)
      end

      # @api private
      def call(block)
        block.call
      end

      # Advances the clock by `seconds` seconds.
      #
      # @return [::Time] the new time of the clock
      # @raise [ArgumentError] if `seconds` is negative, infinite or NaN
      def advance(seconds)
        unless seconds.is_a?(Numeric) && seconds.finite? && !seconds.negative?
          raise ArgumentError, "the clock cannot move by #{seconds.inspect} seconds"
        end

        limit = @driver.now + seconds
        loop do
          due = @driver.step(limit)
          due.each { |number| @driver.take(number)&.fire(self) }
          break if due.empty? && @driver.now >= limit && !((first = @driver.next_time) && first <= limit)
        end
        now
      end

      # @return [Integer] number of armed timers
      def pending
        size
      end
    end

    # Threads that call the blocks of `after_func`. One thread suffices while the blocks are short.
    # If a block takes long, another thread calls the next one.
    #
    # @api private
    class Workers
      # Maximum number of idle threads.
      IDLE = 2

      def initialize
        @jobs = Thread::Queue.new
        @starting = false
      end

      def call(block)
        @jobs << block
        grow
      end

      private

      def grow
        return if @starting || @jobs.empty? || @jobs.num_waiting.positive?

        @starting = true
        Thread.new { work }.name = "punctual after_func"
      rescue ThreadError
        @starting = false
        raise
      end

      def work
        @starting = false
        until @jobs.num_waiting >= IDLE
          block = @jobs.pop
          grow
          run(block)
        end
      end

      def run(block)
        block.call
      rescue Exception => e # rubocop:disable Lint/RescueException -- prints any exception
        warn(e.full_message(highlight: false))
      end
    end
  end
end
