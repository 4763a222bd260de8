# frozen_string_literal: true

module Punctual
  # Timers for one thread that waits for them: the pure Ruby form of the native extension's class.
  #
  # @api private
  class Driver
    # An armed timer. It stands for the number that the native class returns.
    class Alarm
      attr_accessor :place, :order, :target
    end

    def initialize(is_virtual)
      @virtual = is_virtual
      @time = 0.0
      @pid = Process.pid
      @schedule = Schedule.new
      @lock = Mutex.new
      @changed = ConditionVariable.new
      @sleeps_until = -Float::INFINITY
    end

    # Returns true if the driver works in this process: if this process created it, or if its clock
    # is virtual.
    def own?
      @virtual || @pid == Process.pid
    end

    def now
      @virtual ? @time : Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def arm_at(time, target)
      time = Seconds.parse(time, "the time")
      alarm = Alarm.new
      alarm.target = target
      @lock.synchronize do
        @schedule.insert(time, alarm)
        @changed.signal if time < @sleeps_until
      end
      alarm
    end

    def arm_after(delay, target)
      arm_at(now + Seconds.parse(delay, "the time"), target)
    end

    # Disarms an alarm. Returns false if it was not armed: it has fired or was disarmed.
    def disarm(alarm)
      @lock.synchronize do
        return false unless alarm.target

        alarm.target = nil
        @schedule.remove(alarm.place) if alarm.place
      end
      true
    end

    # Takes the target of a due alarm. Returns nil if the alarm was disarmed meanwhile.
    def take(alarm)
      @lock.synchronize do
        target = alarm.target
        alarm.target = nil
        target
      end
    end

    def size
      @schedule.size
    end

    # Waits until alarms fall due, and returns them.
    def wait
      @lock.synchronize do
        due = due_at(now)
        while due.empty?
          first = @schedule.first_time || Float::INFINITY
          @sleeps_until = first
          @changed.wait(@lock, first.infinite? ? nil : [first - now, 0].max)
          @sleeps_until = -Float::INFINITY
          due = due_at(now)
        end
        due
      end
    end

    def next_time
      @schedule.first_time
    end

    # Moves a virtual clock to the next deadline, or to `limit` if that is earlier, and returns the
    # alarms that fall due then.
    def step(limit)
      @lock.synchronize do
        @time = [[@schedule.first_time || limit, limit].min, @time].max
        due_at(@time)
      end
    end

    private

    def due_at(time)
      due = []
      @schedule.fire(time) do |alarm|
        alarm.place = nil
        due << alarm
      end
      due
    end
  end
end
