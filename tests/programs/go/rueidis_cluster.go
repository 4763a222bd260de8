// rueidis's cluster mode: pipelines, transactions, blocking, sharded pub/sub, client-side caching, a slot that moves, a primary
// that is killed.
// Packages: github.com/redis/rueidis
package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

func rueidisCluster(ctx context.Context) {
	client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}}))
	set := func(name string, value int64) error {
		return client.Do(ctx, client.B().Set().Key(name).Value(strconv.FormatInt(value, 10)).Build()).Error()
	}
	get := func(name string) (int64, error) { return client.Do(ctx, client.B().Get().Key(name).Build()).AsInt64() }

	step("keys of all slots")
	for n := range int64(300) {
		check(set(fmt.Sprintf("key:%d", n), n))
	}
	step("pipelines")
	var commands rueidis.Commands
	for n := range 300 {
		commands = append(commands, client.B().Get().Key(fmt.Sprintf("key:%d", n)).Build())
	}
	for n, reply := range client.DoMulti(ctx, commands...) {
		equal(must(reply.AsInt64()), int64(n))
	}

	step("one tag")
	check(client.Do(ctx, client.B().Mset().KeyValue().KeyValue("{tag}1", "1").KeyValue("{tag}2", "2").Build()).Error())
	values := func() []string {
		return must(client.Do(ctx, client.B().Mget().Key("{tag}1", "{tag}2").Build()).AsStrSlice())
	}
	equal(values(), []string{"1", "2"})
	check(client.Dedicated(func(one rueidis.DedicatedClient) error {
		increment := one.B().Incr().Key("{tag}1").Build()
		replies := one.DoMulti(ctx, one.B().Multi().Build(), increment, one.B().Incr().Key("{tag}2").Build(), one.B().Exec().Build())
		equal(must(replies[3].AsIntSlice()), []int64{2, 3})
		return nil
	}))
	equal(values(), []string{"2", "3"})

	step("client-side caching")
	cached := func() rueidis.RedisResult {
		return client.DoCache(ctx, client.B().Get().Key("{tag}cached").Cache(), time.Minute)
	}
	check(set("{tag}cached", 1))
	equal(must(cached().AsInt64()), int64(1))
	again := cached()
	equal(again.IsCacheHit(), true)
	check(set("{tag}cached", 2))
	until(func() bool { return must(cached().AsInt64()) == 2 })

	step("blocking")
	popped := make(chan []string)
	go func() {
		popped <- must(client.Do(ctx, client.B().Blpop().Key("{tag}queue").Timeout(10).Build()).AsStrSlice())
	}()
	check(client.Do(ctx, client.B().Rpush().Key("{tag}queue").Element("job").Build()).Error())
	equal(<-popped, []string{"{tag}queue", "job"})
	step("sharded pub/sub")
	heard := make(chan string, 1)
	listening, cancel := context.WithCancel(ctx)
	go client.Receive(listening, client.B().Ssubscribe().Channel("{tag}news").Build(), func(message rueidis.PubSubMessage) {
		heard <- message.Message
	})
	until(func() bool {
		return must(client.Do(ctx, client.B().Spublish().Channel("{tag}news").Message("hello").Build()).AsInt64()) == 1
	})
	equal(<-heard, "hello")
	cancel()

	moveAndKill(set, get)
	equal(values(), []string{"2", "3"})
}
