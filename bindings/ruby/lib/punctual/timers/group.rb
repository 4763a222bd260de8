# frozen_string_literal: true

require "set"

module Punctual
  # The API of the gem timers 4.x. `require "punctual/timers"` also defines it as `::Timers`, if
  # that gem is not loaded.
  #
  # Arming, firing and cancelling a timer is O(1), and O(log n) at worst in pure Ruby. A cancelled
  # timer is removed at once.
  module Timers
    # The version of the gem timers whose API this is.
    VERSION = "4.4.0"

    # Timers that one thread waits for and fires.
    #
    # Only one thread at a time may use a group. The group's time, the *offset*, is the number of
    # seconds since the group's creation.
    #
    # @example
    #   group = Punctual::Timers::Group.new
    #   group.after(0.01) { puts "later" }
    #   group.wait # prints "later"
    class Group
      include Enumerable

      # @!method after(interval)
      #   Calls the block once, after `interval` seconds. O(1).
      #   @param interval [Numeric] seconds; with a negative number, the timer is due at once; with
      #     infinity, never
      #   @yieldparam offset [Float] the group's time at which the timer fires
      #   @yieldparam timer [Timer]
      #   @return [Timer]
      #   @raise [ArgumentError] if the interval is NaN, or without a block
      #   @raise [TypeError] if the interval is not a number

      # @!method every(interval, recur = true)
      #   Calls the block every `interval` seconds. O(1).
      #   @param interval [Numeric] seconds
      #   @param recur [Boolean, :strict] with `:strict`, the interval counts from the last
      #     deadline, so that delays do not add up; with `true`, from the time at which the timer fires
      #   @return [Timer]

      # @!method wait_interval(offset = current_offset)
      #   Returns the seconds until the next timer is due: negative if it is overdue, nil without
      #   timers. O(1) amortised. After tens of thousands of timers were cancelled, the result may
      #   be too small. A loop that wakes too early calls this again, as {#wait} does.
      #   @return [Float, nil]

      # @!method fire(offset = current_offset)
      #   Fires all due timers in the order of their deadlines. A timer that a block arms for the
      #   past fires at the next call. If a block raises, the other due timers stay armed and fire
      #   at the next call.
      #   @return [nil]

      # @!method current_offset
      #   Returns the group's time in seconds.
      #   @return [Float]

      # @!method size
      #   Returns the number of armed timers. O(1).
      #   @return [Integer]

      # Calls the block now, without arguments, and again after `interval` seconds.
      #
      # @return [Timer]
      def now_and_after(interval, &block)
        yield
        after(interval, &block)
      end

      # Calls the block now, without arguments, and then every `interval` seconds.
      #
      # @return [Timer]
      def now_and_every(interval, recur = true, &block)
        yield
        every(interval, recur, &block)
      end

      # Waits for the next timer and fires all due timers.
      #
      # A block replaces `sleep`: its argument is the number of seconds to wait, or nil to wait
      # forever, and never negative. The block may return early.
      #
      # @return [nil]
      def wait
        if block_given?
          interval = wait_interval
          yield interval && [interval, 0].max
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

      # Calls the block with each armed timer, in no particular order.
      def each(&block)
        return to_enum(:each) { size } unless block

        armed.each(&block)
        self
      end

      # Returns true if no timer is armed.
      def empty?
        size.zero?
      end

      # Returns a view of the timers as scheduled callbacks.
      #
      # @return [Events]
      def events
        @events ||= Events.new(self)
      end

      # Returns the armed timers.
      #
      # @return [Set<Timer>] a new set
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

      # Delays all armed timers by `seconds` seconds.
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
