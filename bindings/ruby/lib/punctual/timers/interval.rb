# frozen_string_literal: true

module Punctual
  module Timers
    # A stopwatch on the monotonic clock.
    class Interval
      def initialize
        @total = 0.0
        @started = nil
      end

      # Starts the stopwatch unless it runs.
      def start
        @started ||= now
        self
      end

      # Stops the stopwatch if it runs.
      def stop
        return unless @started

        @total += now - @started
        @started = nil
      end

      # Returns the total running time in seconds.
      #
      # @return [Float]
      def to_f
        @started ? @total + now - @started : @total
      end

      private

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
