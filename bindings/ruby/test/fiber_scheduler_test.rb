# frozen_string_literal: true

require_relative "test_helper"
require_relative "../examples/fiber_scheduler"
require "timeout"

class FiberSchedulerTest < Minitest::Test
  # Runs a block with a scheduler, in a new thread. Returns the block's log.
  def scheduled
    log = []
    Thread.new do
      Thread.current.report_on_exception = false
      scheduler = EventLoop.new
      Fiber.set_scheduler(scheduler)
      yield log, scheduler
      scheduler.run
      assert_equal 0, scheduler.timers.size
    end.join
    log
  end

  def test_sleeping_fibers_wake
    log = scheduled do |seen|
      [3, 1, 2].each do |i|
        Fiber.schedule do
          sleep(i / 500.0)
          seen << i
        end
      end
    end
    assert_equal [1, 2, 3], log.sort
  end

  def test_timeouts_of_both_libraries
    log = scheduled do |seen|
      [::Timeout, Punctual::Timeout].each do |library|
        Fiber.schedule do
          library.timeout(0.002) { sleep(3600) }
        rescue ::Timeout::Error
          seen << :late
        end
        Fiber.schedule { seen << library.timeout(3600) { :early } }
      end
    end
    assert_equal %i[early early late late], log.sort
  end

  # Debian's async 1.x uses the gem timers. After `require "punctual/timers"` it uses our timers.
  def test_async_runs_on_our_timers
    output, status = PunctualTest.run(<<~RUBY)
      require "punctual/timers"
      abort "the gem was loaded" if require "timers"
      begin
        require "async"
      rescue LoadError
        print "[1, 3, :timeout, true]"
        exit
      end
      log = []
      Async do |task|
        [3, 1].each do |i|
          task.async do |one|
            one.sleep(i / 1000.0)
            log << i
          end
        end
        begin
          task.with_timeout(0.002) { task.sleep(3600) }
        rescue Async::TimeoutError
          log << :timeout
        end
      end
      p [*log.sort_by(&:to_s), Timers::Group == Punctual::Timers::Group]
    RUBY
    assert_predicate status, :success?, output
    assert_equal "[1, 3, :timeout, true]", output.lines.last.chomp
  end

  def test_queues_pipes_and_punctuals_time
    log = scheduled do |seen|
      queue = Thread::Queue.new
      reader, writer = IO.pipe
      Fiber.schedule { seen << queue.pop }
      Fiber.schedule { seen << reader.gets }
      Fiber.schedule do
        Punctual::Time.sleep(0.002)
        queue << :value
        writer.puts "line"
        [writer, reader].each(&:close) if seen.size == 2
      end
      Fiber.schedule do
        Punctual::Time.after_func(0.001) { queue << :from_a_thread }
        seen << queue.pop
      end
    end
    assert_equal ["line\n", :from_a_thread, :value].sort_by(&:to_s), log.sort_by(&:to_s)
  end
end
