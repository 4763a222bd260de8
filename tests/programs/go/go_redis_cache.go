// go-redis's client-side cache: hits, writes of other clients, own writes, expired keys, flushes.
// Packages: github.com/redis/go-redis/v9
package main

import (
	"context"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

func goRedisCache(ctx context.Context) {
	other := redis.NewClient(&redis.Options{Addr: address, Protocol: 2})
	check(other.FlushAll(ctx).Err())
	check(other.ConfigResetStat(ctx).Err())
	cached := redis.NewClient(&redis.Options{Addr: address, Protocol: 3, ClientSideCacheConfig: &redis.ClientSideCacheConfig{}})
	calls := func(command string) int {
		stats := must(other.Info(ctx, "commandstats").Result())
		found := regexp.MustCompile("cmdstat_" + command + ":calls=(\\d+)").FindStringSubmatch(stats)
		if found == nil {
			return 0
		}
		return must(strconv.Atoi(found[1]))
	}
	reads := func(key, value string) func() bool {
		return func() bool { return cached.Get(ctx, key).Val() == value }
	}

	step("hits")
	check(other.Set(ctx, "k", "1", 0).Err())
	for range 100 {
		equal(must(cached.Get(ctx, "k").Result()), "1")
	}
	equal(calls("get"), 1)
	step("another client's write")
	check(other.Set(ctx, "k", "2", 0).Err())
	until(reads("k", "2"))
	step("own writes")
	check(cached.Set(ctx, "k", "3", 0).Err())
	until(reads("k", "3"))
	step("types")
	check(other.HSet(ctx, "h", "a", 1).Err())
	for range 10 {
		equal(must(cached.HGetAll(ctx, "h").Result()), map[string]string{"a": "1"})
	}
	equal(calls("hgetall"), 1)
	check(other.HSet(ctx, "h", "a", 2).Err())
	until(func() bool { return cached.HGetAll(ctx, "h").Val()["a"] == "2" })
	step("an expired key")
	check(other.Set(ctx, "e", "v", 300*time.Millisecond).Err())
	until(reads("e", "v"))
	until(reads("e", ""))
	step("a flush")
	check(other.FlushDB(ctx).Err())
	until(reads("k", ""))
}
