# frozen_string_literal: true

# redis-rb's cluster mode: pipelines of one tag, transactions, blocking, scans, a slot that moves, a
# primary that is killed.
# Packages: ruby-redis
require "redis"
require_relative "verdict"

def connect
  Redis.new(cluster: [ENV.fetch("REDIS_URL")])
end

# Writes keys to the slot of a tag and to other slots, each until it is acknowledged, during the
# block and until a hundred more are acknowledged. Returns the names.
def write(tag)
  acknowledged = []
  stopped = false
  more = lambda do
    goal = acknowledged.size + 100
    Verdict.wait { acknowledged.size >= goal }
  end
  writer = Thread.new do
    redis = connect
    until stopped
      number = acknowledged.size
      name = number.odd? ? "{#{tag}}:#{number}" : "#{tag}:#{number}"
      begin
        redis.set(name, number)
        acknowledged << name
      rescue Redis::BaseError, SystemCallError => e
        puts "again: #{e.class}: #{e.message}"
        sleep 0.01
      end
    end
  end
  more.call
  yield
  more.call
  stopped = true
  writer.join
  acknowledged
end

Verdict.report do
  extend Verdict
  redis = connect
  step "keys of all slots"
  300.times { |n| redis.set("key:#{n}", n) }
  equal (0...300).map { |n| redis.get("key:#{n}") }, (0...300).map(&:to_s)
  equal redis.dbsize, 300
  step "one tag"
  redis.mset("{tag}1", 1, "{tag}2", 2)
  equal redis.mget("{tag}1", "{tag}2", "{tag}3"), ["1", "2", nil]
  equal(redis.pipelined { |pipe| pipe.incr("{tag}1") && pipe.get("{tag}2") }, [2, "2"])
  replies = redis.multi { |transaction| transaction.incr("{tag}1") && transaction.incr("{tag}2") }
  equal replies, [3, 3]
  step "scans"
  found = []
  cursor = "0"
  loop do
    cursor, keys = redis.scan(cursor, match: "key:*")
    found.concat(keys)
    break if cursor == "0"
  end
  equal found.uniq.size, 300
  step "blocking"
  popped = Thread.new { connect.blpop("{tag}queue", timeout: 5) }
  redis.rpush("{tag}queue", "job")
  equal popped.value, ["{tag}queue", "job"]
  step "a slot moves"
  written = write("moved") { control "move {moved} redirected" }
  control "replicated"
  step "a primary is killed"
  write("killed") { control "kill {moved}" }
  step "acknowledged writes"
  redis = connect
  equal written.map { |name| redis.get(name) }, (0...written.size).map(&:to_s)
  equal redis.mget("{tag}1", "{tag}2"), %w[3 3]
end
