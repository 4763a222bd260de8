// go-redis on streams: entries, ranges, trims, groups, acknowledgement, claims, blocked readers of a group.
// Packages: github.com/redis/go-redis/v9
package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func goRedisStreams(ctx context.Context) {
	client := redis.NewClient(&redis.Options{Addr: address})
	step("entries")
	var ids []string
	for n := range 10 {
		args := &redis.XAddArgs{Stream: "s", Values: []string{"n", fmt.Sprint(n)}}
		ids = append(ids, must(client.XAdd(ctx, args).Result()))
	}
	equal(must(client.XLen(ctx, "s").Result()), int64(10))
	equal(must(client.XRangeN(ctx, "s", "-", "+", 1).Result())[0].Values, map[string]any{"n": "0"})
	equal(must(client.XRevRangeN(ctx, "s", "+", "-", 1).Result())[0].ID, ids[9])
	equal(must(client.XDel(ctx, "s", ids[3]).Result()), int64(1))
	equal(must(client.XTrimMaxLen(ctx, "s", 8).Result()), int64(1))
	step("groups")
	check(client.XGroupCreate(ctx, "s", "g", "0").Err())
	read := func(name string, count int64) []redis.XMessage {
		args := &redis.XReadGroupArgs{Group: "g", Consumer: name, Streams: []string{"s", ">"}, Count: count, Block: -1}
		return must(client.XReadGroup(ctx, args).Result())[0].Messages
	}
	first, second := read("alice", 3), read("bob", 100)
	equal([]int{len(first), len(second)}, []int{3, 5})
	equal(must(client.XAck(ctx, "s", "g", first[0].ID).Result()), int64(1))
	equal(must(client.XPending(ctx, "s", "g").Result()).Consumers, map[string]int64{"alice": 2, "bob": 5})
	step("claims")
	claim := &redis.XClaimArgs{Stream: "s", Group: "g", Consumer: "carol", Messages: []string{first[1].ID}}
	equal(must(client.XClaim(ctx, claim).Result())[0].ID, first[1].ID)
	all := &redis.XAutoClaimArgs{Stream: "s", Group: "g", Consumer: "carol", Start: "0"}
	claimed, _, err := client.XAutoClaim(ctx, all).Result()
	check(err)
	equal(len(claimed), 7)
	info := must(client.XInfoStreamFull(ctx, "s", 0).Result())
	equal([]int{int(info.Length), len(info.Groups), len(info.Groups[0].Pending)}, []int{8, 1, 7})
	step("blocked readers")
	check(client.XGroupCreateMkStream(ctx, "jobs", "workers", "$").Err())
	var done atomic.Int64
	for n := range 4 {
		go func() {
			for {
				args := &redis.XReadGroupArgs{
					Group: "workers", Consumer: fmt.Sprint(n), Streams: []string{"jobs", ">"}, Count: 3, Block: time.Second,
				}
				streams, err := client.XReadGroup(ctx, args).Result()
				if errors.Is(err, redis.Nil) {
					continue
				}
				check(err)
				for _, message := range streams[0].Messages {
					done.Add(must(client.XAck(ctx, "jobs", "workers", message.ID).Result()))
				}
			}
		}()
	}
	for n := range 200 {
		check(client.XAdd(ctx, &redis.XAddArgs{Stream: "jobs", Values: []any{"n", n}, MaxLen: 1000, Approx: true}).Err())
	}
	until(func() bool { return done.Load() == 200 })
	equal(must(client.XPending(ctx, "jobs", "workers").Result()).Count, int64(0))
}
