// Runs one of the programs by its name: `programs asynq`.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

var programs = map[string]func(context.Context){
	"asynq":            asynqTasks,
	"go_redis":         goRedis,
	"go_redis_cache":   goRedisCache,
	"go_redis_cluster": goRedisCluster,
	"go_redis_streams": goRedisStreams,
	"redis_rate":       redisRate,
	"rueidis_cluster":  rueidisCluster,
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

// Sends a command to the control port of scripts/cluster, and waits until it is done.
func control(command string) {
	to := must(net.Dial("tcp", os.Getenv("REDIS_HOST")+":"+os.Getenv("CLUSTER_CONTROL")))
	defer to.Close()
	must(fmt.Fprintln(to, command))
	equal(must(bufio.NewReader(to).ReadString('\n')), "ok\n")
}

// Writes keys to the slot of a tag and to other slots, each until it is acknowledged.
type writer struct {
	acknowledged atomic.Int64
	stopped      atomic.Bool
	ended        sync.WaitGroup
}

func nameOf(tag string, number int64) string {
	if number%2 == 1 {
		tag = "{" + tag + "}"
	}
	return fmt.Sprintf("%s:%d", tag, number)
}

func startWriter(tag string, set func(name string, value int64) error) *writer {
	w := &writer{}
	w.ended.Go(func() {
		for !w.stopped.Load() {
			number := w.acknowledged.Load()
			if err := set(nameOf(tag, number), number); err == nil {
				w.acknowledged.Add(1)
			} else {
				fmt.Println("again:", err)
				time.Sleep(10 * time.Millisecond)
			}
		}
	})
	return w
}

func (w *writer) more(count int64) {
	goal := w.acknowledged.Load() + count
	until(func() bool { return w.acknowledged.Load() >= goal })
}

// Moves a slot while a client writes, kills a primary while it writes, and reads the acknowledged writes.
func moveAndKill(set func(string, int64) error, get func(string) (int64, error)) {
	step("a slot moves")
	moved := startWriter("moved", set)
	moved.more(100)
	control("move {moved} redirected")
	moved.more(100)
	moved.stopped.Store(true)
	moved.ended.Wait()
	control("replicated")
	step("a primary is killed")
	killed := startWriter("killed", set)
	killed.more(100)
	control("kill {moved}")
	killed.more(100)
	killed.stopped.Store(true)
	killed.ended.Wait()
	step("acknowledged writes")
	for number := range moved.acknowledged.Load() {
		equal(must(get(nameOf("moved", number))), number)
	}
}

func main() {
	programs[os.Args[1]](context.Background())
	fmt.Println("works")
}
