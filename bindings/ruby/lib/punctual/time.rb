# frozen_string_literal: true

require_relative "time/clock"
require_relative "time/timer"
require_relative "time/ticker"

module Punctual
  # Go's time API on `Thread::Queue`.
  #
  # A timer is no thread: all of them share one that sleeps exactly until the next deadline. Nothing
  # is early. After a fork, the parent's timers do not fire in the child, and new ones work.
  #
  # @example
  #   answer = Thread::Queue.new
  #   timeout = Punctual::Time.after_func(5) { answer << :timeout }
  #   answer << :done # somebody answers
  #   answer.pop      #=> :done
  #   timeout.stop    #=> true
  module Time
    class << self
      # Returns a queue that receives the current time once, after `seconds`.
      #
      # @param seconds [Numeric] negative: at once; infinite: never
      # @return [Thread::Queue]
      # @raise [ArgumentError] if the seconds are NaN
      # @raise [TypeError] if they are no number
      def after(seconds)
        Timer.new(seconds).c
      end

      # Returns a queue that gets the time every so many seconds, for ever. A slow receiver misses
      # ticks.
      #
      # @param seconds [Numeric] more than 0
      # @return [Thread::Queue]
      def tick(seconds)
        Ticker.new(seconds).c
      end

      # Calls the block after so many seconds, in a thread of a pool. What it raises goes to
      # `$stderr`.
      #
      # @return [Timer] its `c` is nil
      def after_func(seconds, &block)
        raise ArgumentError, "after_func without a block" unless block

        Timer.new(seconds, &block)
      end

      # Waits for so many seconds.
      #
      # @return [nil]
      def sleep(seconds)
        after(seconds).pop
        nil
      end

      # Returns what the clock in force shows.
      #
      # @return [::Time]
      def now
        Clock.current.now
      end

      # Puts a virtual clock in force for the block, in all threads: it stands still until it is
      # advanced.
      #
      # @yieldparam clock [VirtualClock]
      def virtual(&)
        Clock.with_virtual(&)
      end
    end
  end
end
