# frozen_string_literal: true

module Punctual
  # Timers of an event loop: the interface of `IO::Event::Timers`.
  #
  # Times are those of {#now}, the monotonic clock, in seconds. A loop waits for {#wait_interval}
  # seconds, then calls {#fire}. Everything is O(1), and a cancelled timer leaves nothing behind.
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

      # @return [Numeric] when it is due, as given
      attr_reader :time

      # @return [#call, nil] what is called then; nil once it is cancelled
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

      # Cancels the timer, in O(1). Does nothing if it has fired.
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
      def call(...)
        @block&.call(...)
      end

      # Compares by time.
      def <=>(other)
        @time <=> other.time if other.is_a?(Handle)
      end

      # Handles of the same time are not the same handle.
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

    # Calls a block at a time.
    #
    # @param time [Numeric] as {#now}
    # @param block [#call] gets the time at which the loop fires
    # @return [Handle]
    # @raise [ArgumentError] if the time is NaN
    # @raise [TypeError] if the time is no number, or the block cannot be called
    def schedule(time, block)
      raise TypeError, "#{block.class} has no method call" unless block.respond_to?(:call)

      handle = Handle.new(time, block, @schedule)
      handle.place = @schedule.insert(time, handle)
      handle
    end

    # Calls a block after so many seconds.
    #
    # @param offset [#to_f]
    # @return [Handle]
    def after(offset, &block)
      schedule(now + offset.to_f, block)
    end

    # Returns the seconds until the next timer is due: negative if it is overdue, nil without
    # timers. After tens of thousands of timers were cancelled, the result may be too small: a loop
    # that wakes early fires nothing and asks again.
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

    # Fires all timers that are due, in the order of their times. Timers that blocks schedule for
    # the past fire at the next call. If a block raises, the timers that are still due stay, and
    # fire at the next call.
    #
    # @return [nil]
    def fire(now = self.now)
      @schedule.fire(now) do |handle|
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
