# frozen_string_literal: true

require_relative "measure"
require_relative "peers"

# Priority queues of integers: the workloads of the gem d_heap.
module QueuesBench
  SIZES = [10, 31_623, 100_000, 3_162_278].freeze
  OPERATIONS = 300_000

  module_function

  def contestants(size)
    queues = { "4-heap in Ruby" => Peers::FourHeap, "punctual" => Punctual::PriorityQueue }
    # Beyond, inserting moves megabytes.
    queues["sorted array"] = Peers::SortedArray if size <= 31_623
    queues
  end

  def scores(size)
    random = Random.new(size)
    Array.new(size) { random.rand(1 << 40) }
  end

  def push_n(queue, scores)
    size = scores.size
    rounds = [OPERATIONS / size, 1].max
    Measure.nanoseconds(size * rounds) do
      rounds.times do
        queue.clear
        i = 0
        while i < size
          queue.push(i, scores[i])
          i += 1
        end
      end
    end
  end

  def push_n_pop_n(queue, scores)
    size = scores.size
    rounds = [OPERATIONS / size, 1].max
    queue.clear
    Measure.nanoseconds(size * rounds * 2) do
      rounds.times do
        i = 0
        while i < size
          queue.push(i, scores[i])
          i += 1
        end
        i = 0
        while i < size
          queue.pop
          i += 1
        end
      end
    end
  end

  # Each pop is replaced by a later push, as timers do.
  def push_pop(queue, scores)
    size = scores.size
    queue.clear
    size.times { |i| queue.push(i, scores[i]) }
    later = 0
    Measure.nanoseconds(OPERATIONS * 2) do
      i = 0
      while i < OPERATIONS
        queue.push(i, (later += 1_000_000) + scores[i % size])
        queue.pop
        i += 1
      end
    end
  end

  def rows(sizes = SIZES)
    sizes.flat_map do |size|
      scores = scores(size)
      queues = contestants(size).transform_values(&:new)
      %i[push_n push_n_pop_n push_pop].map do |workload|
        rounds = size > 1_000_000 ? 3 : Measure::ROUNDS
        runs = queues.transform_values { |queue| -> { send(workload, queue, scores) } }
        medians = Measure.medians(runs, rounds:)
        queues.each_value(&:clear)
        [workload, size, medians]
      end
    end
  end

  # Children per node: nanoseconds of an operation of push-pop and of push.
  def by_d(size)
    scores = scores(size)
    [2, 3, 4, 6, 8, 16].to_h do |d|
      queue = Punctual::PriorityQueue.new(d:)
      [d, %i[push_n push_n_pop_n push_pop].map { |workload| send(workload, queue, scores) }]
    end
  end
end
