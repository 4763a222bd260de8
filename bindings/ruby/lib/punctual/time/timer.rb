# frozen_string_literal: true

module Punctual
  module Time
    # Sends the time into its queue once, or calls a block.
    class Timer
      # @return [Thread::Queue, nil] gets the time when the timer fires; nil if the timer has a
      # block
      attr_reader :c

      # Makes a timer and arms it. O(1).
      #
      # @param seconds [Numeric] negative: at once; infinite: never
      # @raise [ArgumentError] if the seconds are NaN
      # @raise [TypeError] if they are no number
      def initialize(seconds, &block)
        @block = block
        @c = Thread::Queue.new unless block
        @clock = Clock.current
        @number = @clock.arm(seconds, self)
      end

      # Disarms the timer. Its queue is empty afterwards. O(1).
      #
      # @return [Boolean] whether it was armed: if so, it does not fire
      def stop
        number = @number
        @number = nil
        stopped = number ? @clock.disarm(number) : false
        @c&.clear
        stopped
      end

      # Arms the timer anew, for so many seconds from now; works on one that has fired. O(1).
      #
      # @return [Boolean] whether it was armed
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
