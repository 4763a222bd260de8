# frozen_string_literal: true

require_relative "time/clock"
require_relative "time/timer"
require_relative "time/ticker"

module Punctual
  # Go's time API on `Thread::Queue`.
  #
  # All timers share one thread, which sleeps until the next deadline. No timer fires early. In the
  # child of a fork, the parent's timers do not fire, and new timers work.
  #
  # @example
  #   answer = Thread::Queue.new
  #   timeout = Punctual::Time.after_func(5) { answer << :timeout }
  #   answer << :done # another thread answers
  #   answer.pop      #=> :done
  #   timeout.stop    #=> true
  module Time
    class << self
      # Returns a queue that receives the current time once, after `seconds`.
      #
      # @param seconds [Numeric] with a negative number, the timer fires at once; with infinity,
      #   never
      # @return [Thread::Queue]
      # @raise [ArgumentError] if `seconds` is NaN
      # @raise [TypeError] if `seconds` is not a number
      def after(seconds)
        Timer.new(seconds).c
      end

      # Returns a queue that receives the current time every `seconds` seconds, forever. A slow
      # receiver misses ticks.
      #
      # @param seconds [Numeric] more than 0
      # @return [Thread::Queue]
      def tick(seconds)
        Ticker.new(seconds).c
      end

      # Calls the block after `seconds` seconds, in a thread of a pool. An exception of the block is
      # printed to `$stderr`.
      #
      # @return [Timer] its `c` is nil
      def after_func(seconds, &block)
        raise ArgumentError, "after_func without a block" unless block

        Timer.new(seconds, &block)
      end

      # Blocks for `seconds` seconds.
      #
      # @return [nil]
      def sleep(seconds)
        after(seconds).pop
        nil
      end

      # Returns the time of the clock in effect.
      #
      # @return [::Time]
      def now
        Clock.current.now
      end

      # Puts a virtual clock into effect for the duration of the block, in all threads. The clock
      # moves only when it is advanced.
      #
      # @yieldparam clock [VirtualClock]
      def virtual(&block)
        Clock.with_virtual(&block)
      end
    end
  end
end
