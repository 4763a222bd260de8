# frozen_string_literal: true

# Measures the figures of the README: medians of CPU time, with the peers in the same run.
#
#   rake bench                        everything (some minutes)
#   QUICK=1 rake bench                small sizes only
#   ruby -Ilib bench/all.rb timers    one part: timers, million, queues, timeouts

require "json"
require "punctual"
require "timeout"
begin
  require "timers"
rescue LoadError
  abort "the gem timers is not installed (Debian: ruby-timers)"
end
require_relative "peers"
require_relative "queue_work"

# The workloads. Each returns the CPU time of one operation in nanoseconds.
module Work
  OPERATIONS = 20_000

  module_function

  def filled(group, live)
    # The latest deadline comes first, so that the gem's sorted array moves no timers.
    live.times { |i| group.after(1e6 - (i * 0.5)) { nil } }
    group.wait_interval
    group
  end

  # Timeouts that are cancelled before they expire, with a poll after every hundred, as in an event
  # loop.
  def after_cancel(group)
    nanoseconds(OPERATIONS) do
      i = 0
      while i < OPERATIONS
        group.after(5) { nil }.cancel
        i += 1
        group.wait_interval if (i % 100).zero?
      end
    end
  end

  def after_fire(group)
    nanoseconds(OPERATIONS) do
      i = 0
      while i < OPERATIONS
        group.after(0) { nil }
        group.fire
        i += 1
      end
    end
  end

  # Takes the classes by name, because the gem's pure Ruby is measured in a separate process.
  def timers(groups, live)
    filled = groups.transform_values { |name| filled(Object.const_get(name).new, live) }
    %i[after_cancel after_fire].map { |work| medians(filled.transform_values { |group| -> { send(work, group) } }) }
  end

  # Arms and cancels a million timeouts without a poll: returns the time of the first poll in
  # milliseconds, and the ratio of the memory after it to the memory before. Then arms a million
  # timeouts, polls, and cancels them: returns the time of the next poll in milliseconds.
  def million(name)
    group = Object.const_get(name).new
    group.after(1e6) { nil }
    before = resident
    1_000_000.times { |i| group.after(5 + (i * 1e-6)) { nil }.cancel }
    poll = nanoseconds(1_000_000) { group.wait_interval }
    memory = resident.fdiv(before)
    timers = Array.new(1_000_000) { |i| group.after(1e5 - (i * 0.01)) { nil } }
    group.wait_interval
    timers.each(&:cancel)
    GC.start
    [poll, memory, nanoseconds(1_000_000) { group.wait_interval }]
  end

  def resident
    3.times { GC.start }
    File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i
  end

  # `timeout(5) { }` while other timeouts are pending: a hundred nested ones in each thread.
  def timeout(library, operations, pending)
    gate = Thread::Queue.new
    started = Thread::Queue.new
    threads = Array.new(pending / 100) { Thread.new { nested(library, 100) { started << 1 and gate.pop } } }
    threads.each { started.pop }
    medians({ "it" => -> { nanoseconds(operations) { operations.times { library.timeout(5) { nil } } } } })["it"]
  ensure
    gate.close
    threads.each(&:join)
  end

  def nested(library, depth, &)
    depth.zero? ? yield : library.timeout(3600) { nested(library, depth - 1, &) }
  end
end

# Runs the parts and prints their figures.
class Report
  QUICK = ENV.key?("QUICK")
  GROUPS = { "timers" => "Timers::Group", "lazy heap" => "Peers::LazyHeapGroup", "punctual" => "Punctual::Timers::Group" }.freeze
  PARTS = %w[timers million queues timeouts].freeze

  def run(parts)
    puts "#{RUBY_ENGINE} #{RUBY_VERSION}, #{Punctual::NATIVE ? "native" : "pure Ruby"}; medians of CPU time"
    (parts.empty? ? PARTS : parts).each { |part| send(part) }
  end

  private

  # Calls a workload in a separate process.
  def apart(work, *arguments, pure: false)
    program = "require #{File.expand_path(__FILE__).inspect}; puts JSON.generate(Work.#{work}(*#{arguments.inspect}))"
    lib = File.expand_path("../lib", __dir__)
    JSON.parse(IO.popen([{ "PUNCTUAL_PURE" => pure ? "1" : "0" }, RbConfig.ruby, "-W0", "-I#{lib}", "-e", program], &:read))
  end

  def timers
    head "Timers: nanoseconds of an operation", "", "live", *GROUPS.keys, "to timers", "pure", "to timers"
    (QUICK ? [10, 10_000] : [10, 100_000, 1_000_000]).each do |live|
      pure = apart(:timers, GROUPS.slice("punctual"), live, pure: true)
      ["after + cancel", "after + fire"].zip(Work.timers(GROUPS, live), pure) do |name, ns, in_ruby|
        of_pure = in_ruby["punctual"]
        line name, live, *ns.values.map(&:round), times(ns["punctual"], ns["timers"]), of_pure.round, times(of_pure, ns["timers"])
      end
    end
  end

  def million
    head "A million timeouts armed and cancelled one by one without a poll; a million live, then cancelled",
         "", "first poll, ms", "memory after it, to before", "first poll after a million live ones, ms"
    row = ->(name, figures) { line name, *figures.map { |figure| format("%.3f", figure) } }
    GROUPS.each { |name, group| row[name, apart(:million, group)] }
    row["pure", apart(:million, GROUPS["punctual"], pure: true)]
  end

  def queues
    head "Priority queues: millions of operations a second", "", "N", "4-heap in Ruby", "punctual", "to the 4-heap"
    (QUICK ? [10, 31_623] : [10, 31_623, 100_000, 3_162_278]).each do |size|
      random = Random.new(size)
      scores = Array.new(size) { random.rand(1 << 40) }
      queues = { "peer" => Peers::FourHeap.new, "ours" => Punctual::PriorityQueue.new }
      { push_n: "push N", push_n_pop_n: "push N, pop N", push_pop: "push-pop at N" }.each do |work, name|
        ns = Work.medians(queues.transform_values { |queue| -> { Work.send(work, queue, scores) } })
        line name, size, *ns.values.map { |one| format("%.2f", 1000 / one) }, times(ns["peer"], ns["ours"])
      end
    end
  end

  def timeouts
    head "Timeout.timeout(5) { }: ns of a call", "others pending", "timeout #{Timeout::VERSION}", "punctual", "to timeout"
    (QUICK ? [0, 1000] : [0, 10_000]).each do |pending|
      theirs, ours = [[::Timeout, 300], [Punctual::Timeout, 3000]].map { |one, count| Work.timeout(one, count, pending) }
      line pending, theirs.round, ours.round, times(ours, theirs)
    end
  end

  def head(title, *columns)
    puts "", title
    line(*columns)
    puts "#{"|---" * columns.size}|"
  end

  def line(*cells)
    puts "| #{cells.map { |cell| cell.is_a?(Integer) ? cell.to_s.gsub(/(?<=\d)(?=(\d{3})+$)/, ",") : cell }.join(" | ")} |"
    $stdout.flush
  end

  def times(one, other)
    format("%.2fx", one / other)
  end
end

Report.new.run(ARGV) if $PROGRAM_NAME == __FILE__
