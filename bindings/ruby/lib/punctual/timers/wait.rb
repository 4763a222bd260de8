# frozen_string_literal: true

module Punctual
  module Timers
    # Work that is repeated while time remains.
    class Wait
      # Calls the block while time remains: with the remaining seconds, or with nil, for ever, if
      # there is no limit.
      #
      # @param duration [Numeric, nil] seconds
      def self.for(duration, &)
        if duration
          new(duration).while_time_remaining(&)
        else
          loop { yield nil }
        end
      end

      # @return [Numeric] seconds, as given
      attr_reader :duration

      # @return [Float, true] the seconds left at the last look
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
