# frozen_string_literal: true

module Punctual
  module Timers
    # Repeats a block for a limited time.
    class Wait
      # Calls the block with the remaining seconds while time remains. Without a limit, calls the
      # block with nil forever.
      #
      # @param duration [Numeric, nil] the limit in seconds
      def self.for(duration, &block)
        if duration
          new(duration).while_time_remaining(&block)
        else
          loop { yield nil }
        end
      end

      # @return [Numeric] the limit in seconds, as the caller passed it
      attr_reader :duration

      # @return [Float, true] the remaining seconds before the last call of the block, or at the end
      #   of the time (0 or less); true before the first call
      attr_reader :remaining

      def initialize(duration)
        @duration = duration
        @remaining = true
      end

      # Calls the block with the remaining seconds while there are any.
      def while_time_remaining
        interval = Interval.new.start
        yield @remaining while (@remaining = @duration - interval.to_f).positive?
      end
    end
  end
end
