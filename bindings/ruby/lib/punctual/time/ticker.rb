# frozen_string_literal: true

module Punctual
  module Time
    # Sends the time into its queue every so many seconds. A slow receiver misses ticks: the queue
    # holds one at most, and the ticks do not drift.
    class Ticker
      # @return [Thread::Queue]
      attr_reader :c

      # @param seconds [Numeric] more than 0
      # @raise [ArgumentError] if the seconds are not positive and finite
      def initialize(seconds)
        @c = Thread::Queue.new
        @clock = Clock.current
        begin_with(seconds)
      end

      # Ends the ticks. The queue is empty afterwards.
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

      # Begins anew, with another period.
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
        # The next tick that is not past.
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
