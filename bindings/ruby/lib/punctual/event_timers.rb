# frozen_string_literal: true

module Punctual
  # Timers of an event loop: the interface of `IO::Event::Timers`.
  #
  # Times are readings of the monotonic clock in seconds, as {#now} returns. A loop waits for
  # {#wait_interval} seconds, then calls {#fire}. Arming, firing and cancelling a timer is O(1), and
  # O(log n) at worst in pure Ruby. A cancelled timer is removed at once.
  #
  # @example
  #   timers = Punctual::EventTimers.new
  #   timers.after(0.01) { |now| puts "due at #{now}" }
  #   sleep timers.wait_interval
  #   timers.fire
  class EventTimers
    # An armed timer.
    class Handle
      include Comparable

      # @return [Numeric] the time at which the timer is due, as the caller passed it
      attr_reader :time

      # @return [#call, nil] the block; nil after the timer was cancelled
      attr_reader :block

      # @api private
      attr_accessor :place, :order

      # @api private
      def initialize(time, block, schedule)
        @time = time
        @block = block
        @schedule = schedule
        @place = nil
      end

      # Cancels the timer. Does nothing if it has fired.
      #
      # @return [nil]
      def cancel!
        @block = nil
        return unless (place = @place)

        @place = nil
        @schedule.remove(place)
        nil
      end

      def cancelled?
        @block.nil?
      end

      # Calls the block.
      def call(*arguments)
        @block&.call(*arguments)
      end

      # Compares by time.
      def <=>(other)
        @time <=> other.time if other.is_a?(Handle)
      end

      # Returns true only for the same handle, not for another one with the same time.
      def ==(other)
        equal?(other)
      end
    end

    def initialize
      @schedule = Schedule.new
    end

    # Returns the number of armed timers.
    #
    # @return [Integer]
    def size
      @schedule.size
    end

    # Arms a timer that calls a block at a time.
    #
    # @param time [Numeric] a time of {#now}
    # @param block [#call] its argument is the time that was passed to {#fire}
    # @return [Handle]
    # @raise [ArgumentError] if the time is NaN
    # @raise [TypeError] if the time is not a number, or the block has no method `call`
    def schedule(time, block)
      raise TypeError, "#{block.class} has no method call" unless block.respond_to?(:call)

      handle = Handle.new(time, block, @schedule)
      handle.place = @schedule.insert(time, handle)
      handle
    end

    # Arms a timer that calls a block after `offset` seconds.
    #
    # @param offset [#to_f] seconds
    # @return [Handle]
    def after(offset, &block)
      schedule(now + offset.to_f, block)
    end

    # Returns the seconds until the next timer is due: negative if it is overdue, nil without
    # timers. After tens of thousands of timers were cancelled, the result may be too small. A loop
    # that wakes too early fires no timer and calls this again.
    #
    # @return [Float, nil]
    def wait_interval(now = self.now)
      first = @schedule.first_time
      first && (first - now)
    end

    # Returns the monotonic clock's time in seconds.
    #
    # @return [Float]
    def now
      ::Process.clock_gettime(::Process::CLOCK_MONOTONIC)
    end

    # Fires all due timers in the order of their times, and also the timers that their blocks
    # schedule for `now` or earlier. If a block raises, the other due timers stay armed and fire at
    # the next call.
    #
    # @return [nil]
    def fire(now = self.now)
      @schedule.fire_all(now) do |handle|
        handle.place = nil
        handle.call(now)
      end
      nil
    end

    private

    def initialize_copy(_other)
      raise TypeError, "can't copy #{self.class}"
    end
  end
end
