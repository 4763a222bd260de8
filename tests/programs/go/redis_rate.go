// redis_rate: limits of a second, a minute and an hour, bursts, several tokens, as many as possible, reset.
// Packages: github.com/go-redis/redis_rate/v10
package main

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func redisRate(ctx context.Context) {
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: address}))
	step("an hour")
	hour := redis_rate.PerHour(3)
	for remaining := 2; remaining >= 0; remaining-- {
		result := must(limiter.Allow(ctx, "hour", hour))
		equal([]int{result.Allowed, result.Remaining}, []int{1, remaining})
	}
	refused := must(limiter.Allow(ctx, "hour", hour))
	equal([]any{refused.Allowed, refused.RetryAfter > 19*time.Minute}, []any{0, true})
	step("reset")
	check(limiter.Reset(ctx, "hour"))
	equal(must(limiter.AllowN(ctx, "hour", hour, 3)).Remaining, 0)
	step("as many as possible")
	equal(must(limiter.AllowAtMost(ctx, "most", redis_rate.PerMinute(10), 15)).Allowed, 10)
	step("a second and bursts")
	burst := redis_rate.Limit{Rate: 2, Burst: 4, Period: time.Second}
	equal(must(limiter.AllowN(ctx, "burst", burst, 4)).Allowed, 4)
	begun := time.Now()
	until(func() bool { return must(limiter.Allow(ctx, "burst", burst)).Allowed == 1 })
	if waited := time.Since(begun); waited < 400*time.Millisecond {
		equal(waited, "half a second")
	}
}
