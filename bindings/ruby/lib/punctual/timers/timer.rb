# frozen_string_literal: true

module Punctual
  module Timers
    # A block that a group calls at a time. It is armed, or paused, or it has fired or was
    # cancelled; {#reset} arms it again.
    #
    # @example Inactivity: each message puts the timeout off.
    #   group = Punctual::Timers::Group.new
    #   idle = group.after(30) { puts "closing" }
    #   idle.reset # a message came
    class Timer
      include Comparable

      # @!method initialize(group, interval, recurring = false, offset = nil)
      #   Makes a timer and arms it.
      #   @param offset [Numeric, nil] the group's time from which the interval counts; nil: now

      # @!method cancel
      #   Disarms the timer. O(1). Does nothing if it is not armed.
      #   @return [nil]

      # @!method reset(offset = group.current_offset)
      #   Arms the timer anew, for its interval after `offset`. O(1). Works on a timer that has
      #   fired, and in its own block. @return [nil]

      # @!method fire(offset = group.current_offset)
      #   Calls the block now. A recurring timer is armed anew; another one is not armed any more.
      #   @return [nil]

      # @!attribute [r] offset
      #   @return [Float] the group's time at which the timer is due, or at which it fired

      # @!attribute [r] interval
      #   @return [Numeric] seconds, as given

      # @!attribute [r] recurring
      #   @return [Boolean, :strict]

      # @!method armed?
      #   @return [Boolean]

      alias call fire

      # Whether it fires again and again.
      def recurring?
        recurring ? true : false
      end

      def paused?
        !armed? && group.paused_timers.include?(self)
      end

      # Disarms the timer until it is resumed.
      def pause
        return if paused?

        cancel
        group.paused_timers.add(self)
        nil
      end

      # Arms a paused timer for its whole interval.
      def resume
        reset if paused?
        group.paused_timers.delete(self)
        nil
      end

      alias continue resume

      # Puts the deadline off by so many seconds.
      def delay(seconds)
        arm(offset + seconds)
      end

      # Returns the seconds until the timer fires; negative: since it fired.
      #
      # @return [Float]
      def fires_in
        offset && (offset - group.current_offset)
      end

      # Compares by deadline.
      def <=>(other)
        offset <=> other.offset if other.is_a?(Timer)
      end

      # Timers of the same deadline are not the same timer.
      def ==(other)
        equal?(other)
      end

      # @return [String] with when it fires, or fired
      def inspect
        text = +"#<#{self.class}:0x#{object_id.to_s(16)} "
        seconds = fires_in
        text <<
          if paused? then "paused"
          elsif armed? then "fires in #{seconds} seconds"
          elsif seconds then "fired #{seconds.abs} seconds ago"
          else
            "dead"
          end
        text << ", recurs every #{interval}" if recurring?
        text << ">"
      end

      private

      def initialize_copy(_other)
        raise TypeError, "can't copy #{self.class}"
      end

      # A paused timer that is cancelled does not resume.
      def forget_pause
        group.paused_timers.delete(self)
        nil
      end
    end
  end
end
