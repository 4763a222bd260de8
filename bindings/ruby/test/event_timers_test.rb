# frozen_string_literal: true

require_relative "test_helper"

class EventTimersTest < Minitest::Test
  def setup
    @timers = Punctual::EventTimers.new
    @log = []
  end

  def test_fires_in_order_and_passes_the_time
    @timers.schedule(3, ->(now) { @log << [3, now] })
    @timers.schedule(1, ->(now) { @log << [1, now] })
    @timers.schedule(9, ->(_) { flunk })
    @timers.fire(4)
    assert_equal [[1, 4], [3, 4]], @log
    assert_equal 1, @timers.size
    assert_in_delta 5, @timers.wait_interval(4)
  end

  def test_cancel
    handle = @timers.schedule(1, ->(_) { flunk })
    refute_predicate handle, :cancelled?
    handle.cancel!
    assert_predicate handle, :cancelled?
    assert_equal 0, @timers.size
    assert_nil @timers.wait_interval
    @timers.fire(2)
    handle.cancel!
  end

  def test_after_counts_from_now
    before = @timers.now
    handle = @timers.after(10) { nil }
    assert_operator handle.time, :>=, before + 10
    assert_operator @timers.wait_interval, :<=, 10
  end

  def test_handles_compare_by_time
    one = @timers.schedule(1, -> {})
    two = @timers.schedule(2, -> {})
    assert_equal [one, two], [two, one].sort
    assert_operator one, :<, two
  end

  def test_what_a_block_schedules_for_the_past_fires_at_once
    @timers.schedule(1, lambda do |_|
      @timers.schedule(0, ->(now) { @log << [0, now] })
      @timers.schedule(6, ->(now) { @log << [6, now] })
    end)
    @timers.schedule(2, ->(now) { @log << [2, now] })
    @timers.fire(5)
    assert_equal [[0, 5], [2, 5]], @log
    @timers.fire(6)
    assert_equal [6, 6], @log.last
  end

  def test_stands_in_for_io_event
    program = <<~'RUBY'
      require "punctual/io_event"
      timers = IO::Event::Timers.new
      timers.schedule(1, ->(now) { print now })
      timers.fire(2)
    RUBY
    output, status = PunctualTest.run(program)
    assert_equal ["2", true], [output, status.success?]
  end

  def test_an_exception_loses_no_other_timer
    @timers.schedule(1, ->(_) { raise IOError })
    @timers.schedule(2, ->(_) { @log << 2 })
    assert_raises(IOError) { @timers.fire(5) }
    @timers.fire(5)
    assert_equal [2], @log
  end

  def test_bad_input
    assert_raises(ArgumentError) { @timers.schedule(Float::NAN, -> {}) }
    assert_raises(TypeError) { @timers.schedule(1, nil) }
    assert_raises(TypeError) { @timers.schedule(nil, -> {}) }
    assert_raises(ArgumentError) { @timers.fire(Float::NAN) }
    assert_equal 0, @timers.size
  end

  def test_random_operations_against_a_model
    seed = PunctualTest.seed
    random = Random.new(seed)
    model = {}
    fired = []
    now = 0.0
    armed = 0
    3000.times do
      case random.rand(10)
      when 0..4
        id = armed += 1
        time = now + (random.rand(200) / 8.0)
        model[id] = [time, id, @timers.schedule(time, ->(_) { fired << id })]
      when 5..7
        id = model.keys.sample(random: random)
        model.delete(id)[2].cancel! if id
      else
        now += random.rand(50) / 8.0
        due = model.values.select { |at, _| at <= now }.sort_by { |at, order, _| [at, order] }
        due.each { |_, order, _| model.delete(order) }
        fired.clear
        @timers.fire(now)
        assert_equal due.map { |_, order, _| order }, fired, "seed #{seed}"
      end
      assert_equal model.size, @timers.size, "seed #{seed}"
      first = model.values.map(&:first).min
      first ? assert_in_delta(first - now, @timers.wait_interval(now), 1e-6) : assert_nil(@timers.wait_interval(now))
    end
  end
end
