# frozen_string_literal: true

# A Fiber scheduler whose timers are Punctual::EventTimers. Fibers that call `sleep` or
# `Timeout.timeout`, or wait for queues and sockets, wait in one event loop.
#
#   ruby -I lib examples/fiber_scheduler.rb

require "punctual"
require "socket"

# A small event loop on `IO.select`.
class EventLoop
  def initialize
    @timers = Punctual::EventTimers.new
    @readable = {}
    @writable = {}
    @blocked = {}
    @ready = Thread::Queue.new
    @wake_up, @waker = IO.pipe
  end

  # @return [Punctual::EventTimers]
  attr_reader :timers

  def run
    turn until idle?
  end

  # The following methods are hooks of Fiber::Scheduler.

  def close
    run
  ensure
    [@wake_up, @waker].each(&:close)
  end

  def fiber(&)
    Fiber.new(blocking: false, &).tap(&:resume)
  end

  def kernel_sleep(seconds = nil)
    block(:sleep, seconds)
  end

  # Blocks the fiber. Returns true if it was unblocked before the time was over.
  def block(_blocker, seconds = nil)
    fiber = Fiber.current
    @blocked[fiber] = true
    timer = seconds && @timers.after(seconds) { wake(fiber, false) }
    Fiber.yield
  ensure
    @blocked.delete(fiber)
    timer&.cancel!
  end

  # Wakes a blocked fiber. Any thread may call this.
  def unblock(_blocker, fiber)
    @ready << fiber
    @waker.write_nonblock(".", exception: false)
  end

  def io_wait(io, events, seconds)
    fiber = Fiber.current
    @readable[io] = fiber if events.anybits?(IO::READABLE)
    @writable[io] = fiber if events.anybits?(IO::WRITABLE)
    timer = seconds && @timers.after(seconds) { fiber.resume(false) }
    Fiber.yield
  ensure
    timer&.cancel!
    @readable.delete(io)
    @writable.delete(io)
  end

  def timeout_after(seconds, klass, message)
    fiber = Fiber.current
    timer = @timers.after(seconds) { fiber.raise(klass, message) if fiber.alive? }
    yield seconds
  ensure
    timer&.cancel!
  end

  private

  def idle?
    @timers.size.zero? && @readable.empty? && @writable.empty? && @blocked.empty? && @ready.empty?
  end

  def turn
    seconds = @ready.empty? ? @timers.wait_interval : 0
    readable, writable = IO.select([@wake_up, *@readable.keys], @writable.keys, nil, seconds && [seconds, 0].max)
    @wake_up.read_nonblock(64, exception: false) if readable&.include?(@wake_up)
    wake(@ready.pop, true) until @ready.empty?
    readable&.each { |io| @readable[io]&.resume(IO::READABLE) }
    writable&.each { |io| @writable[io]&.resume(IO::WRITABLE) }
    @timers.fire
  end

  def wake(fiber, result)
    fiber.resume(result) if @blocked[fiber] && fiber.alive?
  end
end

if $PROGRAM_NAME == __FILE__
  Fiber.set_scheduler(EventLoop.new)
  3.downto(1) do |i|
    Fiber.schedule do
      sleep(i / 100.0)
      puts "#{i}0 ms"
    end
  end
end
