# frozen_string_literal: true

require "socket"

# Prints the last line of a program, its verdict: `works`, or `fails: ` with the step and the error.
module Verdict
  @@step = "start"

  module_function

  # Prints the name of the next step.
  def step(name)
    @@step = name
    puts "- #{name}"
  end

  def equal(actual, expected)
    raise "#{actual.inspect}, not #{expected.inspect}" unless actual == expected
  end

  # Waits until the block is true.
  def wait(seconds = 15)
    finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    until yield
      raise "not true within #{seconds} s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > finish

      sleep 0.02
    end
  end

  # Sends a command to the control port of scripts/cluster, and waits until it is done.
  def control(command)
    TCPSocket.open(ENV.fetch("REDIS_HOST"), ENV.fetch("CLUSTER_CONTROL").to_i) do |to|
      to.puts command
      equal to.gets.chomp, "ok"
    end
  end

  # Runs the program, prints the verdict and ends the process, even if the library has running
  # threads.
  def report
    $stdout.sync = true
    yield
    puts "works"
    exit!(0)
  rescue StandardError => e
    puts e.full_message(highlight: false)
    puts "fails: #{@@step}: #{e.class}: #{e.message}".tr("\n", " ")
    exit!(1)
  end
end
