# frozen_string_literal: true

require "timeout"
require_relative "measure"

# `Timeout.timeout(5) { }`, with others pending in threads of their own.
module TimeoutsBench
  module_function

  # @return [Hash{String => Float}] nanoseconds of a call
  def row(pending)
    libraries = { "timeout" => [::Timeout, 300], "punctual" => [Punctual::Timeout, 3000] }
    libraries.transform_values { |library, operations| measured(library, operations, pending) }
  end

  def measured(library, operations, pending)
    gate = Thread::Queue.new
    waiting = waiters(library, pending, gate)
    Measure.medians({ "it" => lambda {
      Measure.nanoseconds(operations) { operations.times { library.timeout(5) { nil } } }
    } })["it"]
  ensure
    gate.close
    waiting.each(&:join)
  end

  # Pending timeouts are nested, a hundred in each thread.
  def waiters(library, pending, gate)
    started = Thread::Queue.new
    threads = Array.new((pending / 100.0).ceil) do
      Thread.new { nested(library, 100) { started << 1 and gate.pop } }
    end
    threads.each { started.pop }
    threads
  end

  def nested(library, depth, &)
    depth.zero? ? yield : library.timeout(3600) { nested(library, depth - 1, &) }
  end
end
