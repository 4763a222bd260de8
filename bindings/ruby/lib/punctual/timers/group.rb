# frozen_string_literal: true

require "set"

module Punctual
  # The API of the gem timers 4.x. `require "punctual/timers"` defines it as `::Timers` too, if that
  # gem is not loaded.
  #
  # A timer is armed, fired and cancelled in O(1), and a cancelled one leaves nothing behind.
  module Timers
    # Timers that one thread waits for and fires.
    #
    # A group is for one thread at a time. Its time, the *offset*, counts seconds since it was made.
    #
    # @example
    #   group = Punctual::Timers::Group.new
    #   group.after(0.01) { puts "later" }
    #   group.wait # prints "later"
    class Group
      include Enumerable

      # @!method after(interval)
      #   Calls the block once, after `interval` seconds. O(1).
      #   @param interval [Numeric] seconds; a negative one is due at once, an infinite one never
      #   @yieldparam offset [Float] the time at which the group fires
      #   @yieldparam timer [Timer]
      #   @return [Timer]
      #   @raise [ArgumentError] if the interval is NaN, or there is no block
      #   @raise [TypeError] if the interval is no number

      # @!method every(interval, recur = true)
      #   Calls the block every `interval` seconds. O(1). @param interval [Numeric] seconds @param
      #   recur [Boolean, :strict] `:strict` counts from the last deadline, so that delays do not
      #   add up; `true` counts
      #     from the time at which the group fires
      #   @return [Timer]

      # @!method wait_interval(offset = current_offset)
      #   Returns the seconds until the next timer is due: negative if it is overdue, nil without
      #   timers. O(1) amortised. After tens of thousands of timers were cancelled, the result may
      #   be too small: a loop that wakes early fires nothing and asks again, as {#wait} does.
      #   @return [Float, nil]

      # @!method fire(offset = current_offset)
      #   Fires all timers that are due, in the order of their deadlines. Timers that callbacks arm
      #   for the past fire at the next call. If a callback raises, the timers that are still due
      #   stay, and fire at the next call. @return [nil]

      # @!method current_offset
      #   Returns the group's time in seconds.
      #   @return [Float]

      # @!method size
      #   Returns the number of armed timers. O(1).
      #   @return [Integer]

      # Calls the block now with nil, and once more after `interval` seconds.
      #
      # @return [Timer]
      def now_and_after(interval, &)
        yield
        after(interval, &)
      end

      # Calls the block now with nil, and then every `interval` seconds.
      #
      # @return [Timer]
      def now_and_every(interval, recur = true, &)
        yield
        every(interval, recur, &)
      end

      # Waits for the next timer and fires what is due.
      #
      # A block stands for `sleep`: it gets the seconds to wait, or nil to wait for ever, and may
      # return early.
      #
      # @return [nil]
      def wait
        if block_given?
          yield wait_interval
          while (interval = wait_interval) && interval.positive?
            yield interval
          end
        else
          while (interval = wait_interval) && interval.positive?
            interval.infinite? ? sleep : sleep(interval)
          end
        end
        fire
      end

      # Calls the block with each armed timer, in no order.
      def each(&block)
        return to_enum(:each) { size } unless block

        armed.each(&block)
        self
      end

      # Whether no timer is armed.
      def empty?
        size.zero?
      end

      # Returns the armed timers.
      #
      # @return [Set<Timer>] a set of its own
      def timers
        armed.to_set
      end

      # Returns the paused timers.
      #
      # @return [Set<Timer>]
      def paused_timers
        @paused_timers ||= Set.new
      end

      # Pauses all armed timers.
      def pause
        armed.each(&:pause)
      end

      # Resumes all paused timers.
      def resume
        paused_timers.to_a.each(&:resume)
      end

      alias continue resume

      # Delays all armed timers by so many seconds.
      def delay(seconds)
        armed.each { |timer| timer.delay(seconds) }
      end

      # Cancels all armed timers.
      def cancel
        armed.each(&:cancel)
      end

      private

      def initialize_copy(_other)
        raise TypeError, "can't copy #{self.class}"
      end
    end
  end
end
