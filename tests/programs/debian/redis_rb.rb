# frozen_string_literal: true

# redis-rb: types, pipelines, transactions, EVAL, EVALSHA, FCALL, pub/sub, scans, blocking.
# Packages: ruby-redis
require "redis"
require_relative "verdict"

Verdict.report do
  extend Verdict
  redis = Redis.new(url: ENV.fetch("REDIS_URL"))
  other = redis.dup
  step "types"
  redis.set("s", 1, px: 60_000)
  equal redis.incrby("s", 4), 5
  redis.mapped_hmset("h", "a" => 1, "b" => "two")
  equal redis.hgetall("h"), { "a" => "1", "b" => "two" }
  redis.zadd("z", [[2, "b"], [1, "a"]])
  equal redis.zrange("z", 0, -1, with_scores: true), [["a", 1.0], ["b", 2.0]]
  step "pipelines and transactions"
  equal(redis.pipelined { |pipe| pipe.set("m", 1) && pipe.incr("m") }, ["OK", 2])
  lost = redis.watch("m") do
    other.set("m", "changed")
    redis.multi { |transaction| transaction.set("m", "lost") }
  end
  equal [lost, redis.get("m")], [nil, "changed"]
  step "EVAL and EVALSHA"
  equal redis.eval("return {KEYS[1], ARGV[1], 3, false, {'x'}}", keys: ["k"], argv: ["v"]), ["k", "v", 3, nil, ["x"]]
  sha = redis.script(:load, "return redis.call('GET', KEYS[1])")
  equal redis.evalsha(sha, keys: ["s"]), "5"
  equal redis.script(:exists, [sha, "0" * 40]), [true, false]
  redis.script(:flush)
  error = begin
    redis.evalsha(sha, keys: ["s"])
  rescue Redis::CommandError => e
    e.message
  end
  equal error, "NOSCRIPT No matching script. Please use EVAL."
  step "FCALL"
  code = "#!lua name=ours\nredis.register_function('put', function(keys, args) return redis.call('SET', keys[1], args[1]) end)"
  equal redis.call("FUNCTION", "LOAD", code), "ours"
  equal redis.call("FCALL", "put", 1, "f", "v"), "OK"
  step "pub/sub"
  heard = Thread::Queue.new
  Thread.new do
    other.subscribe("news") do |on|
      on.subscribe { heard << :ready }
      on.message { |_, message| heard << message }
    end
  end
  equal heard.pop, :ready
  redis.publish("news", "hello")
  equal heard.pop, "hello"
  step "scans"
  redis.mapped_mset((1..300).to_h { |n| ["many:#{n}", n] })
  equal redis.scan_each(match: "many:*").to_a.uniq.size, 300
  step "blocking"
  popped = Thread.new { Redis.new(url: ENV.fetch("REDIS_URL")).blpop("queue", timeout: 5) }
  redis.rpush("queue", "job")
  equal popped.value, %w[queue job]
end
