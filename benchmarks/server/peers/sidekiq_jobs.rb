# frozen_string_literal: true

# Sidekiq in `punctual-bench jobs`.
#
# `work PORT OUT` runs jobs, and appends the lateness of each job in microseconds to the file OUT.
# `produce PORT COUNT FIRST SPREAD` adds COUNT jobs. Their due times begin at FIRST (Unix time in
# milliseconds) and are spread over SPREAD milliseconds. With FIRST 0, the jobs are due at once.
require "sidekiq"

MODE, PORT, *REST = ENV["PEER"] ? ENV["PEER"].split : ARGV
Sidekiq.redis = { url: "redis://127.0.0.1:#{PORT}/0" }
OUT = File.open(REST[0], "a").tap { |file| file.sync = true } if MODE == "work"
BULK = 500

def now = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)

# A job that appends its lateness to the file.
class BenchJob
  include Sidekiq::Worker

  def perform(due, _text)
    OUT.write("#{[now - (due * 1000), 0].max}\n")
  end
end

def produce(count, first, spread)
  (0...count).each_slice(BULK) do |indexes|
    # The order of the due times differs from the order of addition; 7,919 is a prime.
    due = indexes.map { |index| first.zero? ? now / 1000 : first + (index * 7919 % count * spread / count) }
    at = first.zero? ? {} : { "at" => due.map { |ms| ms / 1000.0 } }
    Sidekiq::Client.push_bulk({ "class" => BenchJob, "args" => due.map { |ms| [ms, " " * 70] } }.merge(at))
  end
end

if ENV["PEER"].nil? && MODE == "work"
  # Ten threads, and the default interval of Sidekiq's poller.
  exec({ "PEER" => ARGV.join(" ") }, "sidekiq", "-r", File.expand_path(__FILE__), "-c", "10")
elsif MODE == "produce"
  produce(*REST.map { |word| Integer(word) })
end
