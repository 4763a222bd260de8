# frozen_string_literal: true

require_relative "test_helper"

# Tests of real timers wait for them and do not check how late they are. All other tests advance a
# virtual clock.
class TimeTest < Minitest::Test
  Time = Punctual::Time

  def test_after_sends_the_time_once
    Time.virtual do |clock|
      queue = Time.after(5)
      clock.advance(4.999)
      assert_empty queue
      now = clock.advance(0.001)
      assert_equal [now, 0], [queue.pop, queue.size]
      assert_equal now, Time.now
      clock.advance(100)
      assert_empty queue
    end
  end

  def test_timers_fire_in_order
    Time.virtual do |clock|
      log = []
      [3, 1, 2, 1].each_with_index { |seconds, i| Time.after_func(seconds) { log << i } }
      clock.advance(10)
      assert_equal [1, 3, 2, 0], log
    end
  end

  def test_functions_arm_timers_on_the_way
    Time.virtual do |clock|
      log = []
      origin = clock.now
      again = -> { Time.after_func(1) { again.call if (log << (clock.now - origin)).size < 3 } }
      again.call
      clock.advance(10)
      assert_equal [1, 2, 3], log
      assert_equal 0, clock.pending
    end
  end

  def test_stop_and_reset
    Time.virtual do |clock|
      timer = Time::Timer.new(5)
      assert timer.stop
      refute timer.stop
      clock.advance(10)
      assert_empty timer.c
      refute timer.reset(5)
      assert timer.reset(7)
      clock.advance(6)
      assert_empty timer.c
      clock.advance(1)
      assert_equal 1, timer.c.size
      refute timer.stop
      assert_empty timer.c # a stopped timer's queue is empty
    end
  end

  def test_a_ticker_does_not_drift_and_misses_ticks
    Time.virtual do |clock|
      ticker = Time::Ticker.new(10)
      origin = clock.now
      clock.advance(10)
      assert_equal 10, ticker.c.pop - origin
      clock.advance(35) # ticks at 20, 30 and 40, of which the queue holds one
      assert_equal 20, ticker.c.pop - origin
      assert_empty ticker.c
      ticker.reset(1)
      clock.advance(1)
      assert_equal 46, ticker.c.pop - origin
      ticker.stop
      clock.advance(100)
      assert_empty ticker.c
      assert_equal 0, clock.pending
    end
  end

  def test_real_timers
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    assert_kind_of ::Time, Time.after(0.002).pop
    assert_nil Time.sleep(0.002)
    done = Thread::Queue.new
    Time.after_func(0.002) { done << Thread.current }
    refute_equal Thread.current, done.pop
    ticker = Time::Ticker.new(0.001)
    3.times { ticker.c.pop }
    ticker.stop
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - before, :>=, 0.009
    assert_kind_of ::Time, Time.tick(0.001).pop
  end

  def test_an_earlier_timer_wakes_the_thread
    late = Time::Timer.new(3600)
    assert Time.after(0.001).pop
    assert late.stop
  end

  def test_a_function_that_blocks_holds_up_no_other
    gate = Thread::Queue.new
    done = Thread::Queue.new
    5.times { Time.after_func(0) { gate.pop and done << 1 } }
    Time.after_func(0.001) { done << :quick }
    assert_equal :quick, done.pop
    5.times { gate << 1 }
    5.times { assert_equal 1, done.pop }
  end

  def test_a_closed_queue_gets_nothing_and_harms_no_other
    closed = [Time::Timer.new(0.001), Time::Ticker.new(0.001)].map(&:c).each(&:close)
    2.times { Time.sleep(0.002) }
    assert(closed.all?(&:empty?))
  end

  def test_what_a_function_raises_goes_to_stderr
    output, status = PunctualTest.run(<<~RUBY)
      require "punctual"
      Punctual::Time.after_func(0) { raise IOError, "lost" }
      done = Thread::Queue.new
      Punctual::Time.after_func(0.001) { done << 1 }
      done.pop
    RUBY
    assert_match(/lost \(IOError\)/, output)
    assert_predicate status, :success?
  end

  def test_bad_input
    assert_raises(ArgumentError) { Time.after(Float::NAN) }
    assert_raises(TypeError) { Time.after("1") }
    assert_raises(TypeError) { Time.after(nil) }
    assert_raises(ArgumentError) { Time.after_func(1) }
    [0, -1, Float::NAN, Float::INFINITY, "1", nil].each { |period| assert_raises(ArgumentError) { Time.tick(period) } }
    assert_kind_of ::Time, Time.after(-5).pop
    Time.virtual do |clock|
      never = Time.after(Float::INFINITY)
      [-1, Float::NAN, Float::INFINITY, nil].each { |seconds| assert_raises(ArgumentError) { clock.advance(seconds) } }
      clock.advance(1e9)
      assert_empty never
    end
  end

  def test_a_fork_has_timers_of_its_own
    skip "this Ruby has no fork" unless Process.respond_to?(:fork)
    output, status = PunctualTest.run(<<~RUBY)
      require "punctual"
      parents = Punctual::Time.after(0.05)
      late = Punctual::Time::Timer.new(3600)
      child = fork do
        Punctual::Time.sleep(0.06)
        late.stop
        late.reset(0.001)
        late.c.pop
        exit!(parents.empty? ? 7 : 8)
      end
      parents.pop
      Process.wait(child)
      print $?.exitstatus, late.stop
    RUBY
    assert_equal ["7true", true], [output, status.success?]
  end

  def test_in_a_signal_handler_and_a_finalizer
    output, status = PunctualTest.run(<<~RUBY)
      require "punctual"
      group = Punctual::Timers::Group.new
      queue = Punctual::PriorityQueue.new
      Punctual::Time.sleep(0.001)
      log = Thread::Queue.new
      act = lambda do |where|
        group.after(1) { nil }.cancel
        queue << 3 << 1
        log << [where, queue.pop]
        Punctual::Time.after(0.001)
      rescue ThreadError => e
        log << e.class
      end
      trap(:USR1) { act.call(:trap) }
      Process.kill(:USR1, Process.pid)
      log.pop
      ObjectSpace.define_finalizer(Object.new, proc { act.call(:finalizer) })
      GC.start
      at_exit { act.call(:exit) }
      ObjectSpace.define_finalizer("kept".dup, proc { act.call(:end) })
      print "ok"
    RUBY
    assert_equal ["ok", true], [output, status.success?]
  end

  def test_the_program_ends_with_timers_pending
    output, status = PunctualTest.run(<<~RUBY)
      require "punctual"
      Punctual::Time.after(3600)
      Punctual::Time.tick(0.001).pop
      Punctual::Time.after_func(0) { sleep }
      Punctual::Timers::Group.new.after(1) { nil }
      print "end"
    RUBY
    assert_equal ["end", true], [output, status.success?]
  end
end
