// go-redis: types, pipelines, transactions, scripts, EVAL, EVALSHA, FCALL, pub/sub, scans, blocking, RESP2 and RESP3.
// Packages: github.com/redis/go-redis/v9
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

func goRedis(ctx context.Context) {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol})
		check(client.FlushAll(ctx).Err())
		goRedisOf(ctx, client, fmt.Sprintf("RESP%d: ", protocol))
	}
}

func goRedisOf(ctx context.Context, client *redis.Client, name string) {
	step(name + "types")
	check(client.Set(ctx, "s", 1, time.Minute).Err())
	equal(must(client.IncrBy(ctx, "s", 4).Result()), int64(5))
	equal(must(client.HSet(ctx, "h", "a", 1, "b", "two").Result()), int64(2))
	equal(must(client.HGetAll(ctx, "h").Result()), map[string]string{"a": "1", "b": "two"})
	check(client.ZAdd(ctx, "z", redis.Z{Score: 2, Member: "b"}, redis.Z{Score: 1, Member: "a"}).Err())
	equal(must(client.ZRangeWithScores(ctx, "z", 0, -1).Result()), []redis.Z{{Score: 1, Member: "a"}, {Score: 2, Member: "b"}})
	equal(client.Get(ctx, "none").Err(), redis.Nil)
	equal(client.Incr(ctx, "h").Err().Error(), "WRONGTYPE Operation against a key holding the wrong kind of value")

	step(name + "pipelines and transactions")
	commands := must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "m", 1, 0)
		pipe.Incr(ctx, "m")
		return nil
	}))
	equal(commands[1].(*redis.IntCmd).Val(), int64(2))
	equal(client.Watch(ctx, func(tx *redis.Tx) error {
		check(client.Set(ctx, "m", "changed", 0).Err())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "m", "lost", 0).Err() })
		return err
	}, "m"), redis.TxFailedErr)

	step(name + "EVAL and EVALSHA")
	reply := must(client.Eval(ctx, "return {KEYS[1], ARGV[1], 3, false, {'x'}}", []string{"k"}, "v").Result())
	equal(reply, []any{"k", "v", int64(3), nil, []any{"x"}})
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	equal(must(add.Run(ctx, client, []string{"s"}, 10).Int()), 15)
	check(client.ScriptFlush(ctx).Err())
	equal(must(add.Run(ctx, client, []string{"s"}, 10).Int()), 25)
	equal(must(client.ScriptExists(ctx, add.Hash(), "0").Result()), []bool{true, false})
	get := redis.NewScript("return redis.call('GET', KEYS[1])")
	equal(must(get.RunRO(ctx, client, []string{"s"}).Text()), "25")
	equal(client.Eval(ctx, "return redis.error_reply('MINE said no')", nil).Err().Error(), "MINE said no")
	equal(must(client.Eval(ctx, "redis.setresp(3); return redis.call('HGETALL', KEYS[1])", []string{"h"}).Result()) != nil, true)
	step(name + "FCALL")
	library := "#!lua name=ours\nredis.register_function('put', function(k, a) return redis.call('SET', k[1], a[1]) end)"
	equal(must(client.FunctionLoadReplace(ctx, library).Result()), "ours")
	equal(must(client.FCall(ctx, "put", []string{"f"}, "v").Text()), "OK")
	libraries := must(client.FunctionList(ctx, redis.FunctionListQuery{WithCode: true}).Result())
	equal([]string{libraries[0].Name, libraries[0].Functions[0].Name, libraries[0].Code}, []string{"ours", "put", library})
	dump := must(client.FunctionDump(ctx).Result())
	check(client.FunctionFlush(ctx).Err())
	check(client.FunctionRestore(ctx, dump).Err())
	equal(must(client.FCall(ctx, "put", []string{"f"}, "v").Text()), "OK")

	step(name + "pub/sub")
	subscription := client.Subscribe(ctx, "news")
	must(subscription.Receive(ctx))
	equal(must(client.Publish(ctx, "news", "hello").Result()), int64(1))
	equal((<-subscription.Channel()).Payload, "hello")
	check(subscription.Close())
	step(name + "scans")
	for n := range 300 {
		check(client.Set(ctx, fmt.Sprintf("many:%d", n), n, 0).Err())
	}
	found := map[string]bool{}
	for keys := client.Scan(ctx, 0, "many:*", 0).Iterator(); keys.Next(ctx); {
		found[keys.Val()] = true
	}
	equal(len(found), 300)
	step(name + "blocking")
	popped := make(chan []string)
	go func() { popped <- must(client.BLPop(ctx, 5*time.Second, "queue").Result()) }()
	check(client.RPush(ctx, "queue", "job").Err())
	equal(<-popped, []string{"queue", "job"})
	equal(client.BLPop(ctx, 100*time.Millisecond, "queue").Err(), redis.Nil)
}
