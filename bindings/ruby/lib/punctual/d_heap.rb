# frozen_string_literal: true

require_relative "../punctual"

unless defined?(DHeap)
  # The gem d_heap's class: a {Punctual::PriorityQueue} whose scores are numbers. Any other score is
  # converted by `Float(score)`, which calls the object's `to_f`.
  #
  # @example
  #   Task = Struct.new(:id, :time) { def to_f = time.to_f }
  #   heap = DHeap.new
  #   task = Task.new(1, Time.now + 5)
  #   heap.push(task, task) # the score is Float(task)
  #   heap.pop #=> task
  class DHeap < Punctual::PriorityQueue
    # The version of the gem d_heap whose API this is.
    VERSION = "0.7.0"

    # A heap of unique values, whose scores can be read and changed.
    class Map < DHeap
      include Punctual::PriorityQueue::Keyed
    end

    private

    def converts?
      true
    end
  end

  # A later `require "d_heap"` does nothing.
  $LOADED_FEATURES << "d_heap.rb"
end
