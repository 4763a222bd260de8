# frozen_string_literal: true

module Punctual
  module Time
    # Sends the time into its queue at regular intervals. A slow receiver misses ticks: the queue
    # holds at most one. The ticks do not drift.
    class Ticker
      # @return [Thread::Queue]
      attr_reader :c

      # @param seconds [Numeric] the interval, more than 0
      # @raise [ArgumentError] if `seconds` is not positive and finite
      def initialize(seconds)
        @c = Thread::Queue.new
        @clock = Clock.current
        begin_with(seconds)
      end

      # Stops the ticker. The queue is empty afterwards.
      #
      # @return [nil]
      def stop
        number = @number
        @number = nil
        @period = nil
        @clock.disarm(number) if number
        @c.clear
        nil
      end

      # Starts the ticker again, with another interval.
      #
      # @return [nil]
      def reset(seconds)
        check(seconds)
        stop
        @clock = Clock.current unless @clock.own?
        begin_with(seconds)
        nil
      end

      # @api private
      def fire(clock)
        return if !@period || @c.closed?

        @c << clock.now if @c.empty?
        # The first tick after the clock's time.
        late = clock.seconds - @due
        @due += @period * (1 + [(late / @period).floor, 0].max)
        @number = clock.arm_at(@due, self)
      end

      private

      def check(seconds)
        return if seconds.is_a?(Numeric) && seconds.positive? && seconds.finite?

        raise ArgumentError, "a ticker's period is a positive number of seconds, not #{seconds.inspect}"
      end

      def begin_with(seconds)
        check(seconds)
        @period = seconds.to_f
        @due = @clock.seconds + @period
        @number = @clock.arm(@period, self)
      end
    end
  end
end
