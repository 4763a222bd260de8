// Runs one of the programs by its name: `programs asynq`.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"time"
)

var programs = map[string]func(context.Context){
	"asynq":            asynqTasks,
	"go_redis":         goRedis,
	"go_redis_cache":   goRedisCache,
	"go_redis_streams": goRedisStreams,
	"redis_rate":       redisRate,
}

var address = os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT")

// The name of the current step.
var current = "start"

func step(name string) {
	current = name
	fmt.Println("- " + name)
}

// Prints the verdict, which is the last line, and ends the process, even if the library has running goroutines.
func fail(err error) {
	fmt.Printf("fails: %s: %v\n", current, err)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

// Returns the value; if there is an error, ends the program with it.
func must[T any](value T, err error) T {
	check(err)
	return value
}

func equal(actual, expected any) {
	if !reflect.DeepEqual(actual, expected) {
		fail(fmt.Errorf("%#v, not %#v", actual, expected))
	}
}

// Waits until the condition is true.
func until(condition func() bool) {
	for end := time.Now().Add(15 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			fail(fmt.Errorf("not true within 15 s"))
		}
	}
}

func main() {
	programs[os.Args[1]](context.Background())
	fmt.Println("works")
}
