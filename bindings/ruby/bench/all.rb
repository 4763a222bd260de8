# frozen_string_literal: true

# The figures of the README, each beside the peers of the same run.
#
#   rake bench                        everything (some minutes)
#   QUICK=1 rake bench                small sizes only
#   ruby -Ilib bench/all.rb timers    one part: timers, million, queues, d, timeouts, event_timers
#   JSON=figures.json rake bench      writes them as well, for the plot

require "json"
require "punctual"
begin
  require "timers"
rescue LoadError
  abort "the gem timers is not installed (Debian: ruby-timers)"
end
require_relative "timers"
require_relative "queues"
require_relative "timeouts"

# What runs, and how it is printed.
class Report
  QUICK = ENV.key?("QUICK")
  SIZES = QUICK ? [10, 10_000] : [10, 100_000, 1_000_000]
  NAMES = { after_cancel: "after + cancel", after_fire: "after + fire", push_n: "push N", push_n_pop_n: "push N, pop N",
            push_pop: "push-pop at N" }.freeze
  PARTS = %w[timers million queues d timeouts].freeze

  def initialize(parts)
    @parts = parts.empty? ? PARTS : parts
    @figures = {}
  end

  def run
    puts "#{RUBY_ENGINE} #{RUBY_VERSION}, #{Punctual::NATIVE ? "native" : "pure Ruby"}; medians of CPU time"
    @parts.each { |part| send(part) }
    File.write(ENV["JSON"], JSON.pretty_generate(@figures)) if ENV["JSON"]
  end

  private

  # Evaluates an expression in a process of its own.
  def apart(expression, pure: false)
    program = "require 'json'; require 'punctual'; require 'timers'; require #{File.join(__dir__, "timers").inspect}; " \
              "puts JSON.generate(#{expression})"
    lib = File.expand_path("../lib", __dir__)
    JSON.parse(IO.popen([{ "PUNCTUAL_PURE" => pure ? "1" : "0" }, RbConfig.ruby, "-W0", "-I#{lib}", "-e", program], &:read))
  end

  def timers
    native = TimersBench.rows(SIZES)
    in_ruby = apart("TimersBench.rows(#{SIZES})", pure: true)
    @figures["timers"] = native.zip(in_ruby).map { |(work, live, ns), (_, _, pure_ns)| [work, live, ns, pure_ns] }
    puts "\nTimers: nanoseconds of an operation"
    puts "| | live | timers | lazy heap | punctual | to timers | pure | to timers |\n|---|---|---|---|---|---|---|---|"
    @figures["timers"].each do |work, live, ns, pure_ns|
      line NAMES[work], live, *ns.values_at("timers", "lazy heap", "punctual").map(&:round), times(ns["punctual"], ns["timers"]),
           pure_ns["punctual"].round, times(pure_ns["punctual"], pure_ns["timers"])
    end
  end

  def million
    rows = { "timers" => "Timers::Group", "lazy heap" => "Peers::LazyHeapGroup", "punctual" => "Punctual::Timers::Group" }
    measure = ->(group) { "[*TimersBench.after_a_million(#{group}), TimersBench.after_a_crowd(#{group})]" }
    @figures["million"] = rows.transform_values { |group| apart(measure[group]) }
    @figures["million"]["pure"] = apart(measure["Punctual::Timers::Group"], pure: true)
    puts "\nA million timeouts armed and cancelled one by one without a poll; a million live, then cancelled"
    puts "| | first poll, ms | memory after it, to before | first poll after a million live ones, ms |\n|---|---|---|---|"
    @figures["million"].each do |name, (poll, memory, crowd)|
      line name, format("%.3f", poll), format("%.2fx", memory), format("%.3f", crowd)
    end
  end

  def queues
    sizes = QUICK ? [10, 31_623] : QueuesBench::SIZES
    @figures["queues"] = QueuesBench.rows(sizes)
    puts "\nPriority queues: millions of operations a second"
    puts "| | N | sorted array | 4-heap in Ruby | punctual | to the 4-heap |\n|---|---|---|---|---|---|"
    @figures["queues"].each do |work, size, ns|
      line NAMES[work], size, *ns.values_at("sorted array", "4-heap in Ruby", "punctual").map { |one| millions(one) },
           times(ns["4-heap in Ruby"], ns["punctual"])
    end
  end

  def d
    sizes = QUICK ? [31_623] : [100, 31_623, 1_000_000]
    puts "\nChildren per node: nanoseconds of an operation (push N / push N, pop N / push-pop)"
    puts "| N | #{[2, 3, 4, 6, 8, 16].join(" | ")} |\n|---|---|---|---|---|---|---|"
    @figures["d"] = sizes.map do |size|
      row = QueuesBench.by_d(size)
      line size, *row.values.map { |figures| figures.map(&:round).join(" / ") }
      [size, row]
    end
  end

  def timeouts
    @figures["timeouts"] = (QUICK ? [0, 1000] : [0, 10_000]).map { |pending| [pending, TimeoutsBench.row(pending)] }
    puts "\nTimeout.timeout(5) { }: nanoseconds of a call"
    puts "| others pending | timeout #{Timeout::VERSION} | punctual | to timeout |\n|---|---|---|---|"
    @figures["timeouts"].each do |pending, ns|
      line pending, *ns.values_at("timeout", "punctual").map(&:round), times(ns["punctual"], ns["timeout"])
    end
  end

  def line(*cells)
    puts "| #{cells.map { |cell| cell.is_a?(Integer) ? cell.to_s.gsub(/(?<=\d)(?=(\d{3})+$)/, ",") : cell }.join(" | ")} |"
    $stdout.flush
  end

  def times(one, other)
    format("%.2fx", one / other)
  end

  def millions(nanoseconds)
    nanoseconds ? format("%.2f", 1000 / nanoseconds) : "-"
  end
end

Report.new(ARGV).run
