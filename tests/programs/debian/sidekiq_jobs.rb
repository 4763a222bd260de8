# frozen_string_literal: true

# Sidekiq: jobs, scheduled jobs with its own poller, retries, dead jobs, bulk, queues in order, its
# API, shutdown with a running job.
# Packages: ruby-sidekiq
require "sidekiq"
require "sidekiq/api"
require "rbconfig"
require_relative "verdict"

Sidekiq.redis = { url: ENV.fetch("REDIS_URL") }

# The jobs. The worker's process loads this file as well.
module Jobs
  def self.redis(&)
    Sidekiq.redis(&)
  end

  class Note
    include Sidekiq::Job
    def perform(word)
      Jobs.redis { |redis| redis.rpush("notes", word) }
    end
  end

  class When < Note
    def perform(key)
      Jobs.redis { |redis| redis.set(key, Time.now.to_f) }
    end
  end

  class Second < Note
    def perform
      raise "again" if Jobs.redis { |redis| redis.incr("attempts") } < 2
    end
  end

  class Broken < Note
    sidekiq_options retry: 0

    def perform = raise("broken")
  end

  class Slow < Note
    def perform = sleep(60)
  end
end

if Sidekiq.server?
  Sidekiq.options[:poll_interval_average] = 0.5
  Sidekiq.options[:average_scheduled_poll_interval] = 0.5
  return
end

def notes = Jobs.redis { |redis| redis.lrange("notes", 0, -1) }
def value(key) = Jobs.redis { |redis| redis.get(key) }.to_f

Verdict.report do
  extend Verdict
  step "queues in strict order"
  Jobs::Note.set(queue: "low").perform_async("low")
  Jobs::Note.set(queue: "high").perform_async("high")
  equal Sidekiq::Queue.new("low").size, 1
  worker = spawn("sidekiq", "-r", File.expand_path(__FILE__), "-c", "1", "-q", "high", "-q", "default", "-q", "low", "-t", "1")
  wait(30) { notes.size == 2 }
  equal notes, %w[high low]
  step "bulk"
  Sidekiq::Client.push_bulk("class" => Jobs::Note, "args" => Array.new(50) { ["bulk"] })
  wait { notes.size == 52 }

  step "scheduled jobs"
  begun = Time.now.to_f
  Jobs::When.perform_in(1, "in")
  Jobs::When.perform_at(begun + 2, "at")
  far = Jobs::Note.perform_in(3600, "never")
  equal Sidekiq::ScheduledSet.new.size, 3
  wait { value("at").positive? }
  raise "too early" if value("in") < begun + 1 || value("at") < begun + 2

  equal Sidekiq::ScheduledSet.new.find_job(far).delete, true
  step "retries"
  Jobs::Second.perform_async
  wait { Sidekiq::RetrySet.new.size == 1 }
  # Sidekiq would try again in half a minute; the test moves the retry to an earlier time.
  Sidekiq::RetrySet.new.first.reschedule(Time.now + 1)
  wait { value("attempts") == 2 }
  step "dead jobs"
  Jobs::Broken.perform_async
  wait { Sidekiq::DeadSet.new.size == 1 }
  equal Sidekiq::DeadSet.new.first.item["error_message"], "broken"
  Sidekiq::DeadSet.new.clear
  step "statistics"
  wait { Sidekiq::ProcessSet.new.size == 1 && Sidekiq::Stats.new.processed >= 56 }
  equal Sidekiq::Stats.new.failed, 2
  equal Sidekiq::Queue.all.sum(&:size), 0
  step "shutdown with a running job"
  Jobs::Slow.perform_async
  wait { Sidekiq::Queue.new.size.zero? }
  Process.kill("TERM", worker)
  Process.wait(worker)
  # Sidekiq has put the running job back into its queue.
  equal Sidekiq::Queue.new.map(&:klass), ["Jobs::Slow"]
end
