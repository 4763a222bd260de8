package punctualtest_test

import (
	"fmt"
	"time"

	"github.com/punctual-rs/punctual/bindings/go/punctualtest"
)

func ExampleServer_Advance() {
	server, err := punctualtest.Run() // in a test: punctualtest.Start(t)
	if err != nil {
		panic(err)
	}
	defer server.Close()
	before := server.Now()
	fmt.Println(server.Advance(30 * time.Minute).Sub(before))
	// Output: 30m0s
}

func ExampleRun() {
	server, err := punctualtest.Run(
		punctualtest.Directive("notify-keyspace-events", "Ex"),
		punctualtest.Directive("requirepass", "secret"),
	)
	if err != nil {
		panic(err)
	}
	fmt.Println(server.URL()[:len("redis://127.0.0.1:")])
	fmt.Println(server.Close())
	// Output:
	// redis://127.0.0.1:
	// <nil>
}
