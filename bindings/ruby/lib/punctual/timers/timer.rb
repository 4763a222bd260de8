# frozen_string_literal: true

module Punctual
  module Timers
    # A block that a group calls at a time. A timer is armed, is paused, has fired, or was
    # cancelled; {#reset} arms it again.
    #
    # @example Inactivity: each message delays the timeout.
    #   group = Punctual::Timers::Group.new
    #   idle = group.after(30) { puts "closing" }
    #   idle.reset # a message came
    class Timer
      include Comparable

      # @!method initialize(group, interval, recurring = false, offset = nil)
      #   Creates a timer and arms it.
      #   @param offset [Numeric, nil] the group's time at which the interval begins; nil means now

      # @!method cancel
      #   Disarms the timer, or ends its pause, so that {#resume} does nothing. O(1). Does nothing
      #   if the timer is neither armed nor paused.
      #   @return [nil]

      # @!method reset(offset = group.current_offset)
      #   Arms the timer again, to fire one interval after `offset`. O(1). The timer may have fired
      #   before, and its own block may call this.
      #   @return [nil]

      # @!method fire(offset = group.current_offset)
      #   Calls the block now. A recurring timer is armed again; any other timer is disarmed.
      #   @return [Object] the result of the block

      # @!attribute [r] offset
      #   @return [Float] the group's time at which the timer is due, or at which it fired

      # @!attribute [r] interval
      #   @return [Numeric] seconds, as the caller passed them

      # @!attribute [r] recurring
      #   @return [Boolean, :strict]

      # @!method armed?
      #   @return [Boolean]

      alias call fire

      # Returns true if the timer is armed again each time it fires.
      def recurring?
        recurring ? true : false
      end

      def paused?
        !armed? && group.paused_timers.include?(self)
      end

      # Disarms the timer until {#resume}.
      def pause
        return if paused?

        cancel
        group.paused_timers.add(self)
        nil
      end

      # Arms a paused timer, to fire one whole interval from now.
      def resume
        reset if paused?
        group.paused_timers.delete(self)
        nil
      end

      alias continue resume

      # Moves the deadline by `seconds` seconds.
      def delay(seconds)
        arm(offset + seconds)
      end

      # Returns the seconds until the timer fires; a negative number if it fired that long ago.
      #
      # @return [Float]
      def fires_in
        offset && (offset - group.current_offset)
      end

      # Compares by deadline.
      def <=>(other)
        offset <=> other.offset if other.is_a?(Timer)
      end

      # Returns true only for the same timer, not for another one with the same deadline.
      def ==(other)
        equal?(other)
      end

      # @return [String] the class, and the time until the timer fires or since it fired
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

      # Called by `cancel`: a cancelled timer must not resume.
      def forget_pause
        group.paused_timers.delete(self)
        nil
      end
    end
  end
end
