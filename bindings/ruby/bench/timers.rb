# frozen_string_literal: true

require_relative "measure"
require_relative "peers"

# Groups of timers: Punctual's, native or pure as the process has it, the gem's, and the algorithm of its later versions.
module TimersBench
  OPERATIONS = 20_000

  module_function

  def groups
    { "timers" => Timers::Group, "lazy heap" => Peers::LazyHeapGroup, "punctual" => Punctual::Timers::Group }
  end

  def filled(group_class, live)
    group = group_class.new
    # From the latest on: the sorted array of the gem takes them without moving any.
    live.times { |i| group.after(1e6 - (i * 0.5)) { nil } }
    group.wait_interval
    group
  end

  # Timeouts that are cancelled in time, with a poll every hundred, as of an event loop: earlier than all that is live, which
  # suits a sorted array best.
  def after_cancel(group)
    Measure.nanoseconds(OPERATIONS) do
      i = 0
      while i < OPERATIONS
        group.after(5) { nil }.cancel
        i += 1
        group.wait_interval if (i % 100).zero?
      end
    end
  end

  def after_fire(group)
    Measure.nanoseconds(OPERATIONS) do
      i = 0
      while i < OPERATIONS
        group.after(0) { nil }
        group.fire
        i += 1
      end
    end
  end

  # @return [Array] rows: a workload, and nanoseconds by contestant
  def rows(sizes)
    sizes.flat_map do |live|
      filled = groups.transform_values { |group_class| filled(group_class, live) }
      %i[after_cancel after_fire].map do |workload|
        contestants = filled.transform_values { |group| -> { send(workload, group) } }
        [workload, live, Measure.medians(contestants)]
      end
    end
  end

  # A million timeouts live and polled, then cancelled: milliseconds of the first poll.
  def after_a_crowd(group_class)
    group = group_class.new
    group.after(1e6) { nil }
    timers = Array.new(1_000_000) { |i| group.after(1e5 - (i * 0.01)) { nil } }
    group.wait_interval
    timers.each(&:cancel)
    GC.start
    Measure.nanoseconds(1_000_000) { group.wait_interval }
  end

  # A million timeouts armed and cancelled without a poll: how long the first poll takes, in milliseconds, and memory after it
  # beside memory before.
  def after_a_million(group_class)
    group = group_class.new
    group.after(1e6) { nil }
    3.times { GC.start }
    before = Measure.resident
    1_000_000.times { |i| group.after(5 + (i * 1e-6)) { nil }.cancel }
    poll = Measure.nanoseconds(1_000_000) { group.wait_interval }
    3.times { GC.start }
    [poll, Measure.resident.fdiv(before)]
  end
end
