# frozen_string_literal: true

module Punctual
  module Timers
    # Callbacks at times, which can be cancelled. {Group#events} is a view of a group's timers: each
    # callback is a timer of the group, and each timer has a handle.
    #
    # @example
    #   events = Punctual::Timers::Events.new
    #   events.schedule(5, ->(time) { puts time })
    #   events.fire(7) # prints 7
    class Events
      # A scheduled callback.
      class Handle
        include Comparable

        # @api private
        def initialize(timer)
          @timer = timer
          @cancelled = false
        end

        # @return [Float] the time at which the callback is due, or was called
        def time
          @timer.offset
        end

        alias to_f time

        # Cancels the callback.
        #
        # @return [nil]
        def cancel!
          @cancelled = true
          @timer.cancel
        end

        # @return [Boolean] true after {#cancel!}
        def cancelled?
          @cancelled
        end

        # Calls the callback now, unless it was cancelled. Returns the result of the callback.
        def fire(time)
          @timer.fire(time) unless @cancelled
        end

        # Compares by time, also with a number.
        def <=>(other)
          time <=> other.to_f
        end
      end

      # @param group [Group] the group that has the timers
      def initialize(group = Group.new)
        @group = group
      end

      # Schedules a callback.
      #
      # @param time [Numeric] an offset of the group, in seconds
      # @param callback [#call] its argument is the time that {#fire} was called with
      # @return [Handle]
      def schedule(time, callback)
        Handle.new(Timer.new(@group, 0, false, Float(time)) { |now| callback.call(now) })
      end

      # Returns the handle of the earliest callback; nil without callbacks. O(n).
      #
      # @return [Handle, nil]
      def first
        timer = @group.min_by(&:offset)
        timer && Handle.new(timer)
      end

      # Returns the number of scheduled callbacks. Cancelled callbacks do not count.
      #
      # @return [Integer]
      def size
        @group.size
      end

      # Calls all due callbacks in the order of their times.
      #
      # @return [nil]
      def fire(time)
        @group.fire(time)
      end
    end
  end
end
