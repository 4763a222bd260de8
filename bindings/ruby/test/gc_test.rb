# frozen_string_literal: true

require_relative "test_helper"

# Garbage collection at every allocation, objects that move, and objects that only the extension
# references.
class GcTest < Minitest::Test
  def teardown
    GC.stress = false
  end

  # Uses each class like a program. Returns a log of the results.
  def exercise(random, rounds)
    log = []
    group = Punctual::Timers::Group.new
    events = Punctual::EventTimers.new
    queue = Punctual::PriorityQueue.new
    map = Punctual::PriorityQueue::Map.new
    Punctual::Time.virtual do |clock|
      rounds.times do |i|
        timer = Punctual::Timers::Timer.new(group, random.rand(10), false, 0) { |_, one| log << [i, one.interval] }
        every = Punctual::Timers::Timer.new(group, random.rand(1..10), :strict, 0) { log << "every #{i}" }
        every.cancel if i.odd?
        timer.cancel if (i % 3).zero?
        events.schedule(random.rand(10), ->(_) { log << "event #{i}" }).tap { |one| one.cancel! if i.even? }
        queue.push("value #{i}", "score #{random.rand(10)}")
        queue.push("value #{i}", "score #{random.rand(10)}")
        log << queue.pop
        map["key #{random.rand(5)}"] = [random.rand(10), "x"]
        log << map.pop_with_score if (i % 4).zero?
        Punctual::Time.after_func(random.rand(5)) { log << "function #{i}" }
        log << Punctual::Timeout.timeout(50) { "block #{i}" }
        clock.advance(1)
        yield i if block_given?
      end
    end
    group.fire(20)
    events.fire(20)
    log << queue.dup.each_pop.to_a << map.each_with_score.to_a
  end

  def test_under_stress
    expected = exercise(Random.new(1), 20)
    GC.stress = true
    seen = exercise(Random.new(1), 20)
    GC.stress = false
    assert_equal expected, seen
  end

  def test_objects_move
    skip "this Ruby does not compact memory" unless GC.respond_to?(:verify_compaction_references)
    expected = exercise(Random.new(2), 40)
    seen = exercise(Random.new(2), 40) { |i| move_objects if (i % 8).zero? }
    assert_equal expected, seen
    GC.auto_compact = true
    assert_equal(expected, exercise(Random.new(2), 40) { |i| GC.start if (i % 8).zero? })
  ensure
    GC.auto_compact = false
  end

  def test_old_objects_keep_young_ones
    group = Punctual::Timers::Group.new
    queue = Punctual::PriorityQueue.new
    map = Punctual::PriorityQueue::Map.new
    events = Punctual::EventTimers.new
    4.times { GC.start } # moves the objects to the old generation
    log = []
    500.times do |i|
      group.after(i) { log << "timer #{i}" }
      events.schedule(i, ->(_) { log << "event #{i}" })
      queue.push("value #{i}", "score #{format("%03d", i)}")
      map["key #{i}"] = "score #{format("%03d", i)}"
      map["key #{i}"] = "score #{format("%03d", 999 - i)}"
      GC.start(full_mark: false) if (i % 50).zero?
    end
    copy = queue.dup
    GC.start(full_mark: false)
    group.fire(1e6)
    events.fire(1e6)
    assert_equal [*Array.new(500) { |i| "timer #{i}" }, *Array.new(500) { |i| "event #{i}" }], log
    assert_equal(Array.new(500) { |i| "value #{i}" }, copy.each_pop.to_a)
    assert_equal(Array.new(500) { |i| "key #{499 - i}" }, map.each_pop.to_a)
  end

  def test_what_was_cancelled_is_collected
    group = Punctual::Timers::Group.new
    ids = arm_and_cancel(group)
    GC.start
    finalized = ids.count { |id| !alive?(id) }
    assert_operator finalized, :>, 900
    assert_equal 0, group.size
  end

  private

  def arm_and_cancel(group)
    Array.new(1000) do
      timer = group.after(60) { nil }
      timer.cancel
      timer.object_id
    end
  end

  def alive?(id)
    ObjectSpace._id2ref(id)
    true
  rescue RangeError
    false
  end

  def move_objects
    GC.verify_compaction_references(toward: :empty, double_heap: true)
  rescue ArgumentError
    GC.verify_compaction_references(toward: :empty, expand_heap: true)
  end
end
