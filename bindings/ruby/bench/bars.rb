# frozen_string_literal: true

# Compares the extension's priority queue with the same queue in pure Ruby, in one run: the ratios
# must reach the bars. Prints a table with PASS or FAIL, and fails below a bar. On JRuby, compares
# the queue on `java.util.PriorityQueue` with pure Ruby.
#
#   rake bars
#   rake bars:jruby

require "rbconfig"
require_relative "queue_work"

# The workloads of the gem d_heap, each measured natively and in pure Ruby in turns.
class Bars
  WORK = { push_n: "push N", push_n_pop_n: "push N, pop N", push_pop: "pairs of push and pop at N" }.freeze
  # Minimum ratios to pure Ruby. The gem d_heap reached them on the machine of a user
  # (docs/from-timers-and-d_heap.md).
  MINIMA =
    if RUBY_ENGINE == "jruby"
      [10, 1000, 100_000].to_h { |size| [size, [1.15] * 3] }
    else
      { 10 => [8, 13, 38], 100_000 => [15, 32, 68], 1_000_000 => [15, 28, 32] }
    end.freeze
  # Java compiles a loop after it has run for some time.
  WARM_UP = RUBY_ENGINE == "jruby" ? 3 : 0
  PROGRAM = <<~RUBY.freeze
    require "punctual"
    require #{File.join(__dir__, "queue_work").inspect}
    size = Integer(ARGV[0])
    random = Random.new(size)
    scores = Array.new(size) { random.rand(100_000_000) }
    queue = Punctual::PriorityQueue.new
    #{WARM_UP}.times { #{WORK.keys.inspect}.each { |work| Work.send(work, queue, scores) } }
    # A line on the standard input names the next workload.
    while (work = $stdin.gets)
      GC.start
      puts Work.send(work.chomp, queue, scores)
      $stdout.flush
    end
  RUBY
  private_constant :WARM_UP, :PROGRAM

  def run
    head = WORK.values.map { |name| "#{name}: pure, native, ratio (bar)" }
    puts "Millions of operations a second, medians of CPU time", "| N | #{head.join(" | ")} |", "|---|---|---|---|"
    passed = MINIMA.map { |size, minima| row(size, minima) }.all?
    exit passed
  end

  private

  def row(size, minima)
    sides = { native: start(size, "0"), pure: start(size, "1") }
    ratios = WORK.keys.zip(minima).map do |work, minimum|
      ns = Work.medians(sides.transform_values { |side| -> { ask(side, work) } })
      [ns[:pure], ns[:native], ns[:pure] / ns[:native], minimum]
    end
    cells = ratios.map do |pure, native, ratio, minimum|
      verdict = ratio >= minimum ? "PASS" : "FAIL"
      "#{(1000 / pure).round(2)}, #{(1000 / native).round(2)}, #{ratio.round(1)}x (#{minimum}) #{verdict}"
    end
    puts "| #{size} | #{cells.join(" | ")} |"
    $stdout.flush
    ratios.all? { |_, _, ratio, minimum| ratio >= minimum }
  ensure
    sides.each_value(&:close)
  end

  def start(size, pure)
    lib = File.expand_path("../lib", __dir__)
    IO.popen([{ "PUNCTUAL_PURE" => pure }, RbConfig.ruby, "-W0", "-I#{lib}", "-e", PROGRAM, size.to_s], "r+")
  end

  def ask(side, work)
    side.puts(work)
    Float(side.gets)
  end
end

Bars.new.run if $PROGRAM_NAME == __FILE__
