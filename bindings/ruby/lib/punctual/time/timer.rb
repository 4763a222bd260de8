# frozen_string_literal: true

module Punctual
  module Time
    # Sends the time into its queue once, or calls a block.
    class Timer
      # @return [Thread::Queue, nil] receives the time when the timer fires; nil for a timer with a
      #   block
      attr_reader :c

      # Creates a timer and arms it. O(1).
      #
      # @param seconds [Numeric] with a negative number, the timer fires at once; with infinity,
      #   never
      # @raise [ArgumentError] if `seconds` is NaN
      # @raise [TypeError] if `seconds` is not a number
      def initialize(seconds, &block)
        @block = block
        @c = Thread::Queue.new unless block
        @clock = Clock.current
        @number = @clock.arm(seconds, self)
      end

      # Disarms the timer. Its queue is empty afterwards. O(1).
      #
      # @return [Boolean] true if the timer was armed; then it does not fire
      def stop
        number = @number
        @number = nil
        stopped = number ? @clock.disarm(number) : false
        @c&.clear
        stopped
      end

      # Arms the timer again, to fire `seconds` seconds from now. The timer may have fired before.
      # O(1).
      #
      # @return [Boolean] true if the timer was armed
      def reset(seconds)
        stopped = stop
        @clock = Clock.current unless @clock.own?
        @number = @clock.arm(seconds, self)
        stopped
      end

      # @api private
      def fire(clock)
        @number = nil
        if @block
          clock.call(@block)
        elsif !@c.closed?
          @c << clock.now
        end
      end
    end
  end
end
