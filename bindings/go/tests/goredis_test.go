package tests

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/punctual-rs/punctual/bindings/go/punctualtest"
	"github.com/redis/go-redis/v9"
)

func start(t *testing.T, options ...punctualtest.Option) (*punctualtest.Server, *redis.Client) {
	server := punctualtest.Start(t, options...)
	parsed, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(parsed)
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

func TestASessionExpiresWhenTheClockMoves(t *testing.T) {
	server, client := start(t)
	ctx := t.Context()
	if err := client.Set(ctx, "session", "alice", 30*time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	server.Advance(30*time.Minute - time.Millisecond)
	if user, err := client.Get(ctx, "session").Result(); user != "alice" {
		t.Fatal("the session ended early:", user, err)
	}
	server.Advance(time.Millisecond)
	if _, err := client.Get(ctx, "session").Result(); !errors.Is(err, redis.Nil) {
		t.Fatal("the session has not ended:", err)
	}
}

func TestEventsOfExpiryArriveInOrder(t *testing.T) {
	server, client := start(t, punctualtest.Directive("notify-keyspace-events", "Ex"))
	ctx := t.Context()
	events := client.Subscribe(ctx, "__keyevent@0__:expired")
	defer events.Close()
	if _, err := events.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	for _, seconds := range []int{30, 10, 20} {
		key := fmt.Sprint("k", seconds)
		if err := client.Set(ctx, key, "", time.Duration(seconds)*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
	}
	server.Advance(time.Minute)
	for _, expected := range []string{"k10", "k20", "k30"} {
		if event, err := events.ReceiveMessage(ctx); err != nil || event.Payload != expected {
			t.Fatal("expected", expected, "and received", event, err)
		}
	}
}

func TestAJobRunsOnTime(t *testing.T) {
	server, client := start(t)
	ctx := t.Context()
	if err := client.Do(ctx, "TIMER", "SET", "reminder", "IN", "3600000", "DO", "INCR", "sent").Err(); err != nil {
		t.Fatal(err)
	}
	server.Advance(time.Hour)
	if sent, err := client.Get(ctx, "sent").Int(); sent != 1 {
		t.Fatal("sent", sent, err)
	}
}

// A suite of tests that each start a server: `go test -run Suite -v` prints its time.
func TestSuiteOfAHundredServers(t *testing.T) {
	for i := 0; i < 100; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			server, client := start(t)
			if err := client.Set(t.Context(), "key", "value", time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			server.Advance(time.Minute)
			if size, err := client.DBSize(t.Context()).Result(); size != 0 || err != nil {
				t.Fatal(size, "keys", err)
			}
		})
	}
}
