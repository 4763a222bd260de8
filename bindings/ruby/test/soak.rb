# frozen_string_literal: true

# Random operations on every class, compared with models, for a number of seconds. Now and then the
# garbage collector moves objects.
#
#   ruby -Ilib test/soak.rb 600

require "punctual"
require "set"

# Runs the random operations. The model of each class is a Hash that is sorted on demand.
class Soak
  def initialize(seed)
    @seed = seed
    @random = Random.new(seed)
    @operations = 0
  end

  def run(seconds)
    finish = now + seconds
    rounds = 0
    while now < finish
      %i[queue map group events].each { |part| send(part) }
      collect if ((rounds += 1) % 20).zero?
    end
    puts "seed #{@seed}: #{@operations} operations in #{rounds} rounds, native: #{Punctual::NATIVE}, " \
         "#{File.read("/proc/self/status")[/VmRSS:\s+(.*)/, 1]}"
  end

  private

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def collect
    GC.start
    GC.verify_compaction_references(toward: :empty, double_heap: false) if @random.rand(10).zero?
  end

  def check(expected, seen)
    @operations += 1
    abort "seed #{@seed}, operation #{@operations}: expected #{expected.inspect}, saw #{seen.inspect}" if expected != seen
  end

  # Returns the keys of due timers, in order.
  def due_in(model, time)
    model.select { |_, entry| entry[0] <= time }.sort_by { |_, entry| entry.first(2) }.map(&:first)
  end

  def score
    case @random.rand(4)
    when 0 then @random.rand(50)
    when 1 then @random.rand(50) / 2.0
    when 2 then (1 << 53) + @random.rand(5)
    else Rational(@random.rand(100), 3)
    end
  end

  def queue
    queue = Punctual::PriorityQueue.new(d: @random.rand(2..8))
    simple = @random.rand(2).zero?
    model = []
    1000.times do |i|
      case @random.rand(20)
      when 0..11
        one = simple ? @random.rand(100) : score
        queue.push("value #{i}", one)
        model << [one, i]
      when 12 then queue = queue.dup
      else
        least = model.min
        check(least && "value #{least[1]}", queue.pop)
        model.delete(least)
      end
    end
    check(model.sort.map { |_, i| "value #{i}" }, queue.each_pop.to_a)
  end

  def map
    map = Punctual::PriorityQueue::Map.new(d: @random.rand(2..8))
    model = {}
    1000.times do |i|
      key = "key #{@random.rand(100)}"
      case @random.rand(10)
      when 0..4
        one = score
        map[key] = one
        model[key] = [one, i]
      when 5, 6 then check(model.delete(key)&.first, map.delete(key))
      when 7
        least = model.min_by { |_, entry| entry }
        check(least&.first, map.pop)
        model.delete(least&.first)
      else check(model[key]&.first, map[key])
      end
      check(model.size, map.size)
    end
  end

  # Timers whose deadlines are multiples of 1/8, which are exact as floats.
  def group
    group = Punctual::Timers::Group.new
    model = {}
    fired = []
    time = 0.0
    1000.times do |i|
      case @random.rand(10)
      when 0..3
        seconds = @random.rand(200) / 8.0
        model[i] = [time + seconds, i, Punctual::Timers::Timer.new(group, seconds, false, time) { fired << i }]
      when 4
        id = model.keys.sample(random: @random) or next
        model[id][2].cancel
        model.delete(id)
      when 5, 6
        id = model.keys.sample(random: @random) or next
        timer = model[id][2]
        timer.reset(time)
        model[id] = [time + timer.interval, i, timer]
      else
        time += @random.rand(100) / 8.0
        due = due_in(model, time)
        due.each { |one| model.delete(one) }
        fired.clear
        group.fire(time)
        check(due, fired)
      end
      check(model.size, group.size)
    end
  end

  def events
    timers = Punctual::EventTimers.new
    model = {}
    fired = []
    time = 0.0
    1000.times do |i|
      case @random.rand(10)
      when 0..4
        at = time + (@random.rand(200) / 8.0)
        model[i] = [at, i, timers.schedule(at, ->(_) { fired << i })]
      when 5..7
        id = model.keys.sample(random: @random) or next
        model.delete(id)[2].cancel!
      else
        time += @random.rand(50) / 8.0
        due = due_in(model, time)
        due.each { |one| model.delete(one) }
        fired.clear
        timers.fire(time)
        check(due, fired)
        first = model.values.map(&:first).min
        check(first && (first - time), timers.wait_interval(time))
      end
    end
  end
end

if $PROGRAM_NAME == __FILE__
  Soak.new(Integer(ENV.fetch("PUNCTUAL_SEED") do
    Random.new_seed % 1_000_000
  end)).run(Float(ARGV.fetch(0, "10")))
end
