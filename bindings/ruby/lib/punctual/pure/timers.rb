# frozen_string_literal: true

module Punctual
  module Timers
    # The methods of {Group} that the native extension implements in Rust.
    class Group
      # @api private
      attr_reader :schedule

      def initialize
        @schedule = Schedule.new
        @origin = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def after(interval, &block)
        Timer.new(self, interval, false, &block)
      end

      def every(interval, recur = true, &block)
        Timer.new(self, interval, recur, &block)
      end

      def wait_interval(offset = current_offset)
        first = @schedule.first_time
        first && (first - Seconds.parse(offset, "the offset"))
      end

      def fire(offset = current_offset)
        offset = Seconds.parse(offset, "the offset")
        @schedule.fire(offset) do |timer|
          timer.place = nil
          timer.__send__(:run, offset)
        end
        nil
      end

      def current_offset
        Process.clock_gettime(Process::CLOCK_MONOTONIC) - @origin
      end

      def size
        @schedule.size
      end

      private

      def armed
        @schedule.objects
      end
    end

    # The methods of {Timer} that the native extension implements in Rust.
    class Timer
      # @api private
      attr_accessor :place, :order

      attr_reader :interval, :recurring, :offset

      def initialize(group, interval, recurring = false, offset = nil, &block)
        raise ArgumentError, "tried to create a timer without a block" unless block
        raise TypeError, "not a Punctual::Timers::Group: #{group.class}" unless group.is_a?(Group)
        raise FrozenError.new("can't modify frozen #{group.class}", receiver: group) if group.frozen?

        @group = group
        @schedule = group.schedule
        @interval = interval
        @seconds = Seconds.parse(interval, "the interval")

        @recurring = recurring
        @block = block
        @place = nil
        @offset = (offset ? Seconds.parse(offset, "the offset") : group.current_offset) + @seconds
        @schedule.insert(@offset, self)
      end

      def cancel
        place = @place
        return forget_pause unless place

        @place = nil
        @schedule.remove(place)
        nil
      end

      def reset(offset = @group.current_offset)
        arm(Seconds.parse(offset, "the offset") + @seconds)
      end

      def fire(offset = @group.current_offset)
        disarm
        run(Seconds.parse(offset, "the offset"))
      end

      def armed?
        !@place.nil?
      end

      private

      attr_reader :group

      def disarm
        place = @place
        return unless place

        @place = nil
        @schedule.remove(place)
      end

      def arm(offset)
        offset = Seconds.parse(offset, "the offset")
        raise FrozenError.new("can't modify frozen #{@group.class}", receiver: @group) if @group.frozen?

        disarm
        @offset = offset
        @schedule.insert(offset, self)
        nil
      end

      # Calls the block and returns its result. Arms a recurring timer for the next time first.
      def run(offset)
        if @recurring
          arm((@recurring == :strict ? @offset : offset) + @seconds)
        else
          @offset = offset
        end
        call_block(offset)
      end

      # Unlike a block, a lambda must be called with exactly as many arguments as it has parameters.
      def call_block(offset)
        arity = @block.lambda? ? @block.arity : 2
        case arity
        when 0 then @block.call
        when 1 then @block.call(offset)
        else @block.call(offset, self)
        end
      end
    end
  end
end
