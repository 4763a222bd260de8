# frozen_string_literal: true

require_relative "test_helper"
require "punctual/minitest"

# Redis clients for Ruby, and Sidekiq, if they are installed.
class ClientsTest < Minitest::Test
  include Punctual::MinitestHelper
  include PunctualTest::Needs

  def test_ruby_redis
    need "redis"
    redis = Redis.new(url: punctual_server.url)
    redis.set("session", "alice", ex: 1800)
    punctual_server.advance(1799)
    assert_equal ["alice", 1], [redis.get("session"), redis.ttl("session")]
    punctual_server.advance(1)
    assert_nil redis.get("session")
    redis.pipelined { |pipeline| 3.times { |i| pipeline.zadd("z", i, "m#{i}") } }
    assert_equal %w[m0 m1 m2], redis.zrange("z", 0, -1)
    assert_equal(%w[a 1], redis.multi do |transaction|
                            transaction.hset("h", "a", 1) && transaction.hgetall("h")
                          end.last.to_a.flatten)
    assert_raises(Redis::CommandError) { redis.incr("h") }
    assert_equal %w[list x], redis.tap { |one| one.rpush("list", "x") }.blpop("list", timeout: 1)
  end

  def test_expired_keys_are_announced
    need "redis"
    punctual_server.stop
    @punctual_server = Punctual::Server.new(clock: :virtual, notify_keyspace_events: "Ex").start
    seen = Thread::Queue.new
    listener = Thread.new do
      Redis.new(url: punctual_server.url).psubscribe("__keyevent@0__:expired") do |on|
        on.psubscribe { seen << :listening }
        on.pmessage { |_, _, key| seen << key }
      end
    end
    assert_equal :listening, seen.pop
    redis = Redis.new(url: punctual_server.url)
    redis.set("b", 1, ex: 20)
    redis.set("a", 1, ex: 10)
    punctual_server.advance(30)
    assert_equal %w[a b], [seen.pop, seen.pop]
    listener.kill
  end

  # A job of Sidekiq is scheduled for later, and runs when the clocks are advanced, without a sleep.
  def test_sidekiq_runs_a_scheduled_job
    %w[redis sidekiq sidekiq/scheduled sidekiq/processor sidekiq/fetch sidekiq/testing].each { |library| need library }
    Sidekiq::Testing.disable!
    Sidekiq.logger.level = Logger::FATAL
    Sidekiq.redis = { url: punctual_server.url }
    job = Class.new do
      include Sidekiq::Worker
      singleton_class.attr_accessor :done
      define_singleton_method(:name) { "ClientsTest::LateJob" }
      define_method(:perform) { |word| self.class.done = word }
    end
    self.class.const_set(:LateJob, job) unless self.class.const_defined?(:LateJob)
    job.perform_in(3600, "late")
    poller = Sidekiq::Scheduled::Enq.new
    poller.enqueue_jobs
    assert_equal [1, 0], [Sidekiq.redis { |r| r.zcard("schedule") }, Sidekiq.redis { |r| r.llen("queue:default") }]

    later = ::Time.now + 3601
    punctual_server.advance(3601)
    ::Time.stub(:now, later) { poller.enqueue_jobs }
    assert_equal [0, 1], [Sidekiq.redis { |r| r.zcard("schedule") }, Sidekiq.redis { |r| r.llen("queue:default") }]
    fetch = Sidekiq::BasicFetch.new(queues: ["default"], strict: true)
    Sidekiq::Processor.new(nil, Sidekiq.options.merge(fetch:)).__send__(:process, fetch.retrieve_work)
    assert_equal ["late", 0], [job.done, Sidekiq.redis { |r| r.llen("queue:default") }]
  end
end
