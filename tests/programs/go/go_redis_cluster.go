// go-redis's cluster mode: pipelines, transactions, WATCH, blocking, sharded pub/sub, RESP2 and RESP3, a slot that moves, a
// primary that is killed.
// Packages: github.com/redis/go-redis/v9
package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func goRedisCluster(ctx context.Context) {
	var client *redis.ClusterClient
	for _, protocol := range []int{2, 3} {
		client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, Protocol: protocol, ClusterStateReloadInterval: time.Second})
		goRedisClusterOf(ctx, client, fmt.Sprintf("RESP%d: ", protocol))
	}
	set := func(name string, value int64) error { return client.Set(ctx, name, value, 0).Err() }
	moveAndKill(set, func(name string) (int64, error) { return client.Get(ctx, name).Int64() })
	equal(must(client.MGet(ctx, "{tag}1", "{tag}2").Result()), []any{"2", "3"})
}

func goRedisClusterOf(ctx context.Context, client *redis.ClusterClient, name string) {
	step(name + "keys of all slots")
	for n := range 300 {
		check(client.Set(ctx, fmt.Sprintf("key:%d", n), n, 0).Err())
	}
	var size atomic.Int64
	check(client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, "key:*").Result()
		size.Add(int64(len(keys)))
		return err
	}))
	equal(size.Load(), int64(300))
	step(name + "pipelines")
	commands := must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range 300 {
			pipe.Get(ctx, fmt.Sprintf("key:%d", n))
		}
		return nil
	}))
	for n, command := range commands {
		equal(must(command.(*redis.StringCmd).Int()), n)
	}

	step(name + "one tag")
	check(client.MSet(ctx, "{tag}1", 1, "{tag}2", 2).Err())
	equal(must(client.MGet(ctx, "{tag}1", "{tag}2", "{tag}3").Result()), []any{"1", "2", nil})
	must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "{tag}1")
		return pipe.Incr(ctx, "{tag}2").Err()
	}))
	equal(must(client.MGet(ctx, "{tag}1", "{tag}2").Result()), []any{"2", "3"})
	equal(client.Watch(ctx, func(tx *redis.Tx) error {
		check(client.Set(ctx, "{tag}3", "changed", 0).Err())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Del(ctx, "{tag}3").Err() })
		return err
	}, "{tag}3"), redis.TxFailedErr)
	check(client.Del(ctx, "{tag}3").Err())
	crossed := client.Eval(ctx, "return 1", []string{"a", "b"}).Err().Error()
	equal(strings.Fields(crossed)[0], "CROSSSLOT")

	step(name + "blocking")
	popped := make(chan []string)
	go func() { popped <- must(client.BLPop(ctx, 10*time.Second, "{tag}queue").Result()) }()
	check(client.RPush(ctx, "{tag}queue", "job").Err())
	equal(<-popped, []string{"{tag}queue", "job"})
	step(name + "sharded pub/sub")
	subscription := client.SSubscribe(ctx, "{tag}news")
	must(subscription.Receive(ctx))
	equal(must(client.SPublish(ctx, "{tag}news", "hello").Result()), int64(1))
	equal((<-subscription.Channel()).Payload, "hello")
	check(subscription.Close())
}
