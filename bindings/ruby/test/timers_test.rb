# frozen_string_literal: true

require_relative "test_helper"

class TimersTest < Minitest::Test
  def setup
    @group = Punctual::Timers::Group.new
    @log = []
  end

  def test_after_fires_once_with_the_offset_and_the_timer
    timer = @group.after(5) { |*args| @log << args }
    @group.fire(timer.offset - 1)
    assert_empty @log
    @group.fire(timer.offset)
    @group.fire(timer.offset + 10)
    assert_equal [[timer.offset, timer]], @log
    refute timer.armed?
    assert_empty @group
  end

  def test_deadlines_decide_the_order_and_equal_ones_the_arming
    [3, 1, 2, 1].each_with_index { |offset, i| Punctual::Timers::Timer.new(@group, offset, false, 100) { @log << i } }
    @group.fire(104)
    assert_equal [1, 3, 2, 0], @log
  end

  def test_fire_returns_the_result_of_the_block
    assert_equal :done, @group.after(5) { :done }.fire
    assert_equal :again, @group.every(5) { :again }.call(3)
    assert_nil @group.fire(1e6)
  end

  def test_events_are_a_view_of_the_timers
    events = @group.events
    assert_nil events.first
    late = events.schedule(7, ->(time) { @log << [7, time] })
    early = events.schedule(2.5, ->(time) { @log << [2.5, time] })
    timer = Punctual::Timers::Timer.new(@group, 5, false, 0) { @log << :timer }
    assert_equal [3, 2.5, 2.5], [events.size, events.first.time, events.first.to_f]
    assert_operator late, :>, early
    late.cancel!
    assert_equal [true, false, 2], [late.cancelled?, early.cancelled?, events.size]
    events.fire(6)
    assert_equal [[2.5, 6], :timer], @log
    refute_predicate timer, :armed?
    assert_equal :now, events.schedule(9, ->(_) { :now }).fire(1)
    assert_equal 0, Punctual::Timers::Events.new.size
    assert_match(/\A4\./, Punctual::Timers::VERSION)
  end

  def test_a_lambda_gets_as_many_arguments_as_it_names
    @group.after(0, &-> { @log << 0 })
    @group.after(0, &->(_offset) { @log << 1 })
    @group.after(0, &->(_offset, _timer) { @log << 2 })
    @group.fire(1e6)
    assert_equal [0, 1, 2], @log
  end

  def test_every_recurs_from_the_time_of_firing
    timer = Punctual::Timers::Timer.new(@group, 10, true, 0) { |offset| @log << offset }
    @group.fire(13)
    assert_equal 23, timer.offset
    @group.fire(22)
    @group.fire(23)
    assert_equal [13, 23], @log
    assert_predicate timer, :recurring?
  end

  def test_a_strict_timer_does_not_drift
    timer = Punctual::Timers::Timer.new(@group, 10, :strict, 0) { |offset| @log << offset }
    @group.fire(13)
    assert_equal 20, timer.offset
    @group.fire(21)
    assert_equal 30, timer.offset
  end

  def test_now_and_after_calls_at_once
    @group.now_and_after(5) { |offset| @log << offset }
    assert_equal [nil], @log
    @group.now_and_every(5) { |offset| @log << offset }
    assert_equal 2, @group.size
    assert_equal [nil, nil], @log
  end

  def test_cancel_leaves_nothing_behind
    timer = @group.after(5) { flunk }
    timer.cancel
    timer.cancel
    assert_nil @group.wait_interval
    assert_equal 0, @group.size
    @group.fire(1e6)
  end

  def test_a_timer_that_fired_can_be_reset
    timer = @group.after(5) { |offset| @log << offset }
    @group.fire(100)
    timer.reset(100)
    assert_equal 105, timer.offset
    @group.fire(105)
    assert_equal [100, 105], @log
  end

  def test_a_timer_resets_itself_in_its_block
    timer = @group.after(5) do |offset|
      @log << offset
      timer.reset(offset) if @log.size < 3
    end
    [100, 105, 110, 115].each { |offset| @group.fire(offset) }
    assert_equal [100, 105, 110], @log
    refute timer.armed?
  end

  def test_a_recurring_timer_cancels_itself_in_its_block
    timer = @group.every(5) do
      @log << 1
      timer.cancel
    end
    @group.fire(100)
    @group.fire(200)
    assert_equal [1], @log
  end

  def test_a_callback_cancels_and_delays_others_that_are_due
    later = nil
    @group.after(1) do
      @doomed.cancel
      later.delay(1000)
    end
    @doomed = @group.after(2) { flunk }
    later = @group.after(2) { @log << :later }
    @group.fire(100)
    assert_empty @log
    @group.fire(1500)
    assert_equal [:later], @log
  end

  def test_a_timer_armed_for_the_past_in_a_block_fires_next_time
    @group.after(0) { @group.after(-5) { @log << :inner } }
    @group.fire(10)
    assert_empty @log
    @group.fire(10.1)
    assert_equal [:inner], @log
  end

  def test_every_zero_does_not_keep_fire_busy
    @group.every(0) { @log << 1 }
    @group.fire(10)
    assert_equal [1], @log
    @group.fire(11)
    assert_equal [1, 1], @log
  end

  def test_an_exception_loses_no_other_timer
    @group.after(1) { raise IOError, "first" }
    @group.after(2) { @log << :second }
    @group.every(3) { throw :out }
    assert_raises(IOError) { @group.fire(10) }
    catch(:out) { @group.fire(10) }
    assert_equal [:second], @log
    assert_equal 1, @group.size
  end

  def test_wait_interval
    assert_nil @group.wait_interval
    timer = @group.after(10) { nil }
    assert_in_delta 4, @group.wait_interval(timer.offset - 4), 1e-6
    assert_in_delta(-2, @group.wait_interval(timer.offset + 2), 1e-6)
    assert_operator @group.wait_interval, :<=, 10
  end

  def test_wait_with_a_block_that_stands_for_sleep
    offset = @group.current_offset
    @group.after(0.001) { @log << :fired }
    waits = []
    @group.wait do |interval|
      waits << interval
      sleep interval
    end
    assert_equal [:fired], @log
    assert_operator waits.first, :<=, 0.001
    assert_operator @group.current_offset - offset, :>=, 0.001
    @group.wait { |interval| waits << interval }
    assert_nil waits.last
  end

  def test_wait_gives_its_block_no_negative_number_of_seconds
    @group.after(-1) { @log << :fired }
    waits = []
    @group.wait { |interval| waits << interval }
    assert_equal [0], waits
    assert_equal [:fired], @log
  end

  def test_wait_sleeps
    @group.after(0.001) { @log << 1 }
    assert_nil @group.wait
    assert_equal [1], @log
  end

  def test_pause_and_resume
    timer = @group.after(5) { @log << 1 }
    other = @group.after(5) { @log << 2 }
    @group.pause
    assert_predicate timer, :paused?
    assert_equal [Set[timer, other], 0], [@group.paused_timers, @group.size]
    @group.fire(1e6)
    @group.resume
    refute_predicate timer, :paused?
    assert_operator timer.fires_in, :>, 4
    other.pause
    other.cancel
    @group.continue
    @group.fire(2e6)
    assert_equal [1], @log
  end

  def test_group_delay_and_cancel
    timers = Array.new(3) { |i| @group.after(i + 1) { @log << i } }
    offsets = timers.map(&:offset)
    @group.delay(10)
    assert_equal(offsets.map { |offset| offset + 10 }, timers.map(&:offset))
    assert_equal timers.to_set, @group.timers
    assert_equal 3, @group.count
    @group.cancel
    assert_empty @group
  end

  def test_timer_fire_calls_now
    timer = @group.after(5) { |offset| @log << offset }
    timer.fire(7)
    timer.call(8)
    assert_equal [7, 8], @log
    refute timer.armed?
  end

  def test_inspect_and_comparison
    soon = @group.after(10) { nil }
    late = @group.every(20) { nil }
    assert_match(/\A#<Punctual::Timers::Timer:0x\h+ fires in \d+\.\d+ seconds>\z/, soon.inspect)
    assert_match(/recurs every 20>\z/, late.inspect)
    soon.fire
    assert_match(/fired .* seconds ago>/, soon.inspect)
    assert_operator soon, :<, late
    assert_equal [10, 20], [soon.interval, late.interval]
    late.pause
    assert_match(/paused/, late.inspect)
  end

  def test_infinite_never_fires
    @group.after(Float::INFINITY) { flunk }
    assert_equal Float::INFINITY, @group.wait_interval
    @group.fire(Float::INFINITY)
    assert_equal 1, @group.size
  end

  # A loop that waits for `wait_interval` and fires reaches the last timer in time, in few
  # iterations.
  def test_after_a_crowd_was_cancelled
    last = Punctual::Timers::Timer.new(@group, 5000, false, 0) { @log << :last }
    crowd = Array.new(70_000) { |i| Punctual::Timers::Timer.new(@group, 1 + (i * 0.05), false, 0) { flunk } }
    crowd.each(&:cancel)
    time = 0.0
    turns = 0
    while @log.empty?
      wait = @group.wait_interval(time)
      assert_operator time + wait, :<=, last.offset
      time += wait
      @group.fire(time)
      turns += 1
    end
    assert_in_delta last.offset, time
    assert_operator turns, :<, 1000
    assert_nil @group.wait_interval
  end

  def test_bad_input
    assert_raises(ArgumentError) { @group.after(Float::NAN) { nil } }
    assert_raises(ArgumentError) { @group.after(1) }
    assert_raises(TypeError) { @group.after("soon") { nil } }
    assert_raises(TypeError) { @group.after(nil) { nil } }
    assert_raises(ArgumentError) { @group.fire(Float::NAN) }
    assert_raises(TypeError) { Punctual::Timers::Timer.new(Object.new, 1) { nil } }
    assert_raises(TypeError, NoMethodError) { Punctual::Timers::Timer.allocate.reset }
    assert_equal 0, @group.size
  end

  def test_frozen
    timer = @group.after(1) { nil }
    frozen = @group.after(1) { nil }.freeze
    [-> { frozen.reset }, -> { frozen.cancel }, -> { frozen.delay(1) }].each do |change|
      assert_raises(FrozenError, &change)
    end
    @group.freeze
    [-> { @group.after(1) { nil } }, -> { timer.reset }, -> { @group.every(1) { nil } }].each do |change|
      assert_raises(FrozenError, &change)
    end
    assert_equal 2, @group.size
    [@group, timer].each { |one| assert_raises(TypeError) { one.dup } }
  end

  def test_wait_for_and_interval
    remaining = []
    Punctual::Timers::Wait.for(0.001) { |seconds| remaining << seconds }
    assert(remaining.all? { |seconds| seconds.positive? && seconds <= 0.001 })
    Punctual::Timers::Wait.for(nil) { |seconds| break assert_nil(seconds) }
    interval = Punctual::Timers::Interval.new.start
    interval.stop
    assert_equal interval.to_f, interval.to_f
  end

  def test_the_name_timers
    output, status = PunctualTest.run('require "punctual/timers"; print Timers::Group.new.class')
    assert_equal ["Punctual::Timers::Group", true], [output, status.success?]
  end
end
