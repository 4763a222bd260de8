package punctualtest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/punctual-rs/punctual/bindings/go/punctualtest"
)

// TestMain is also the program that a test kills: it prints the address of a server, and waits.
func TestMain(m *testing.M) {
	if os.Getenv("PUNCTUALTEST_WAIT") == "" {
		os.Exit(m.Run())
	}
	server, err := punctualtest.Run()
	if err != nil {
		panic(err)
	}
	fmt.Println(server.Addr())
	select {}
}

func TestTheServerEndsWithAKilledParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "PUNCTUALTEST_WAIT=1")
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", strings.TrimSpace(address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	if n, err := client.Read(make([]byte, 1)); err == nil {
		t.Fatalf("the server sent %d bytes instead of its end", n)
	}
}

func TestTheLogAndTheEnd(t *testing.T) {
	server := punctualtest.Start(t)
	if !strings.Contains(server.Log(), "The clock is virtual") {
		t.Error("the log lacks the clock:", server.Log())
	}
	for i := 0; i < 2; i++ {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := net.Dial("tcp", server.Addr()); err == nil {
		t.Error("the server still accepts connections")
	}
}

func TestFractionsOfAMillisecondCount(t *testing.T) {
	server := punctualtest.Start(t, punctualtest.Directive("requirepass", `a "b`))
	before := server.Now()
	for _, step := range []struct{ by, expected time.Duration }{
		{0, 0}, {1, 1}, {time.Millisecond, 2}, {time.Millisecond + 1, 4},
	} {
		if moved := server.Advance(step.by).Sub(before); moved != step.expected*time.Millisecond {
			t.Errorf("%s after %s", moved, step.by)
		}
	}
	later := before.Add(time.Hour)
	if now := server.SetTime(later); !now.Equal(later) || !server.Now().Equal(later) {
		t.Errorf("%s instead of %s", now, later)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	fails := func(expected string, options ...punctualtest.Option) {
		t.Helper()
		server, err := punctualtest.Run(options...)
		if err == nil {
			_ = server.Close()
			t.Fatal("the server starts")
		}
		if !strings.Contains(err.Error(), expected) {
			t.Errorf("%v does not mention %q", err, expected)
		}
	}
	fails("maxclients", punctualtest.Directive("maxclients", "many"))
	fails("it ended: exit status 1", punctualtest.Directive("no-such-directive", "1"))
	fails("no such file", punctualtest.Binary("/no/such/file"))
	t.Setenv("PUNCTUAL_BINARY", "/no/such/program")
	fails("/no/such/program")
	t.Setenv("PUNCTUAL_BINARY", "")
	t.Setenv("PATH", t.TempDir())
	fails("PUNCTUAL_BINARY")
}

func TestAdvanceFailsWithARealClock(t *testing.T) {
	server, err := punctualtest.Run(punctualtest.RealClock())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	defer func() {
		if failure := recover(); failure == nil || !strings.Contains(fmt.Sprint(failure), "CLOCK ADVANCE") {
			t.Error("the failure is", failure)
		}
	}()
	server.Advance(time.Second)
}
