# frozen_string_literal: true

# Contestants in turn, so that a busy moment of the machine meets all of them; medians of CPU time.
module Measure
  ROUNDS = Integer(ENV.fetch("ROUNDS", "5"))

  module_function

  # @param contestants [Hash{String => Proc}] each measures itself once and returns nanoseconds per operation
  # @return [Hash{String => Float}] medians
  def medians(contestants, rounds: ROUNDS)
    samples = contestants.transform_values { [] }
    rounds.times do
      contestants.each do |name, contestant|
        GC.start
        samples[name] << contestant.call
      end
    end
    samples.transform_values { |of_one| of_one.sort[of_one.size / 2] }
  end

  # @return [Float] nanoseconds of CPU time per operation
  def nanoseconds(operations)
    before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
    yield
    (Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond) - before).fdiv(operations)
  end

  # @return [Integer] KiB of memory that the process has
  def resident
    File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i
  end
end
