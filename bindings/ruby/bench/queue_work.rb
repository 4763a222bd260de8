# frozen_string_literal: true

# The workloads of the gem d_heap, for CRuby and JRuby: N pushes; N pushes and N pops; pairs of a
# push and a pop in a queue of N values. Each returns the CPU time of one operation in nanoseconds.
module Work
  PUSHES = 300_000

  module_function

  def nanoseconds(operations)
    before = cpu_time
    yield
    (cpu_time - before).fdiv(operations)
  end

  if RUBY_ENGINE == "jruby"
    # JRuby has no clock of the process.
    def cpu_time
      java.lang.management.ManagementFactory.thread_mx_bean.current_thread_cpu_time
    end
  else
    def cpu_time
      Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
    end
  end

  # Measures the contestants in turns, so that a busy moment of the machine affects all of them.
  def medians(contestants)
    samples = contestants.transform_values { [] }
    Integer(ENV.fetch("ROUNDS", "5")).times do
      contestants.each do |name, contestant|
        GC.start
        samples[name] << contestant.call
      end
    end
    samples.transform_values { |of_one| of_one.sort[of_one.size / 2] }
  end

  def push_n(queue, scores)
    size = scores.size
    rounds = [PUSHES / size, 1].max
    nanoseconds(size * rounds) do
      rounds.times do
        queue.clear
        push(queue, scores, size)
      end
    end
  end

  def push_n_pop_n(queue, scores)
    size = scores.size
    rounds = [PUSHES / size, 1].max
    queue.clear
    nanoseconds(size * rounds * 2) do
      rounds.times do
        push(queue, scores, size)
        i = size
        queue.pop while (i -= 1) >= 0
      end
    end
  end

  # After each pop, pushes a greater score, like a timer that is armed again.
  def push_pop(queue, scores)
    size = scores.size
    queue.clear
    push(queue, scores, size)
    i = 0
    nanoseconds(PUSHES * 2) do
      while i < PUSHES
        queue.push(i, (i * 1_000_000) + scores[i % size])
        queue.pop
        i += 1
      end
    end
  end

  def push(queue, scores, size)
    i = 0
    while i < size
      queue.push(i, scores[i])
      i += 1
    end
  end
end
