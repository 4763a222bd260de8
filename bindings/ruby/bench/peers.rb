# frozen_string_literal: true

# The peers of the benchmarks, besides the gem timers and the standard library.
module Peers
  # The algorithm of timers 4.3: a binary heap of timers. A cancelled timer stays in the heap until
  # it is the first.
  class LazyHeapGroup
    # A timer, which is its own handle.
    class Timer
      attr_reader :time, :block

      def initialize(time, block)
        @time = time
        @block = block
      end

      def <(other)
        @time < other.time
      end

      def cancel
        @block = nil
      end
    end

    def initialize
      @heap = []
      @queue = []
      @origin = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def current_offset
      Process.clock_gettime(Process::CLOCK_MONOTONIC) - @origin
    end

    def after(interval, &block)
      timer = Timer.new(current_offset + interval, block)
      @queue << timer
      timer
    end

    def wait_interval(offset = current_offset)
      merge
      pop while @heap[0] && !@heap[0].block
      @heap[0] && (@heap[0].time - offset)
    end

    def fire(offset = current_offset)
      merge
      while (timer = @heap[0]) && timer.time <= offset
        pop
        timer.block&.call(offset)
      end
    end

    private

    def merge
      while (timer = @queue.pop)
        push(timer) if timer.block
      end
    end

    def push(timer)
      heap = @heap
      place = heap.size
      heap << timer
      while place.positive? && timer < heap[parent = (place - 1) / 2]
        heap[place] = heap[parent]
        place = parent
      end
      heap[place] = timer
    end

    def pop
      heap = @heap
      last = heap.pop
      return if heap.empty?

      place = 0
      size = heap.size
      while (child = (place * 2) + 1) < size
        child += 1 if child + 1 < size && heap[child + 1] < heap[child]
        break if last < heap[child]

        heap[place] = heap[child]
        place = child
      end
      heap[place] = last
    end
  end

  # A 4-ary heap of numeric scores in pure Ruby, without checks and without an order of equal
  # scores.
  class FourHeap
    def initialize
      @scores = []
      @values = []
    end

    def clear
      @scores.clear
      @values.clear
    end

    def push(value, score)
      scores = @scores
      values = @values
      place = scores.size
      scores << score
      values << value
      while place > 0 # rubocop:disable Style/NumericPredicate -- saves a method call
        parent = (place - 1) >> 2
        above = scores[parent]
        break unless score < above

        scores[place] = above
        values[place] = values[parent]
        place = parent
      end
      scores[place] = score
      values[place] = value
    end

    def pop
      scores = @scores
      values = @values
      return if scores.empty?

      least = values[0]
      score = scores.pop
      value = values.pop
      size = scores.size
      return least if size == 0 # rubocop:disable Style/NumericPredicate -- saves a method call

      place = 0
      while (child = (place << 2) + 1) < size
        first = child
        first_score = scores[child]
        last = child + 4
        last = size if last > size
        while (child += 1) < last
          other = scores[child]
          if other < first_score
            first = child
            first_score = other
          end
        end
        break unless first_score < score

        scores[place] = first_score
        values[place] = values[first]
        place = first
      end
      scores[place] = score
      values[place] = value
      least
    end
  end
end
