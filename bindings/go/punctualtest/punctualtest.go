// Package punctualtest starts Punctual servers for tests. Punctual is a Redis-compatible server with
// a clock that a test can advance, so a test of expiry needs no sleep:
//
//	func TestSessionEnds(t *testing.T) {
//		server := punctualtest.Start(t)
//		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
//		client.Set(ctx, "session", "alice", 30*time.Minute)
//		server.Advance(30 * time.Minute)
//		// The session has expired.
//	}
//
// Any Redis client can connect. Each server is a process of its own, without data and files, and
// starts within milliseconds. It ends with the test, or with the test's process if that is killed.
//
// The package does not contain the server. It runs the program of the option [Binary], of the
// environment variable PUNCTUAL_BINARY, or punctual or punctual-server in a folder of PATH.
package punctualtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience limits the start, the end and a reply, also on a busy machine.
const patience = 30 * time.Second

type config struct {
	binary, password string
	arguments        []string
}

// An Option changes how a server starts.
type Option func(*config)

// Binary sets the path of the server's program.
func Binary(path string) Option {
	return func(c *config) { c.binary = path }
}

// RealClock lets the server's time pass as usual. Then [Server.Advance] and [Server.SetTime] fail.
func RealClock() Option {
	return Directive("clock", "real")
}

// Directive sets a directive of redis.conf, for example ("notify-keyspace-events", "Ex").
func Directive(name string, values ...string) Option {
	return func(c *config) {
		if name == "requirepass" {
			c.password = strings.Join(values, "")
		}
		c.arguments = append(append(c.arguments, "--"+name), values...)
	}
}

// A Server is a running server. Its methods may be called from several goroutines.
type Server struct {
	t        testing.TB // nil if Run started the server
	port     int
	password string
	cmd      *exec.Cmd
	input    io.Closer // the server ends when it is closed
	log      *log
	exited   chan struct{}
}

// Start starts a server for a test, and stops it when the test ends. If the test fails, its output
// has the server's log. If the server does not start, the test fails.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	server, err := Run(options...)
	if err != nil {
		t.Fatal(err)
	}
	server.t = t
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of the server at %s:\n%s", server.Addr(), server.Log())
		}
	})
	return server
}

// Run starts a server that does not belong to a test, for example in TestMain. The caller must call
// [Server.Close].
func Run(options ...Option) (*Server, error) {
	config := config{}
	for _, option := range options {
		option(&config)
	}
	binary, err := find(config.binary)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, append([]string{
		"--supervised", "parent", "--port", "0", "--clock", "virtual", "--save", "",
	}, config.arguments...)...)
	server := &Server{
		cmd:      cmd,
		password: config.password,
		log:      &log{ready: make(chan int, 1)},
		exited:   make(chan struct{}),
	}
	cmd.Stdout, cmd.Stderr = server.log, server.log
	if server.input, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("punctualtest: cannot start %s: %w", binary, err)
	}
	go func() {
		_ = cmd.Wait() // Close looks at the state.
		close(server.exited)
	}()
	select {
	case server.port = <-server.log.ready:
		return server, nil
	case <-server.exited:
		err = fmt.Errorf("it ended: %s", cmd.ProcessState)
	case <-time.After(patience):
		_ = server.Close()
		err = fmt.Errorf("it was not ready after %s", patience)
	}
	return nil, fmt.Errorf("punctualtest: cannot start %s: %w; its log:\n%s", binary, err, server.Log())
}

func find(binary string) (string, error) {
	if binary == "" {
		binary = os.Getenv("PUNCTUAL_BINARY")
	}
	if binary != "" {
		return binary, nil
	}
	for _, name := range []string{"punctual", "punctual-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("punctualtest: no server program: name it with the option Binary or the environment " +
		"variable PUNCTUAL_BINARY, or install punctual in a folder of PATH")
}

// Addr returns the address that clients connect to, for example "127.0.0.1:40123".
func (s *Server) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// URL returns the address as a URL, for example "redis://127.0.0.1:40123".
func (s *Server) URL() string {
	return "redis://" + s.Addr()
}

// Log returns what the server has written so far.
func (s *Server) Log() string {
	return s.log.String()
}

// Close stops the server. It returns an error if the server has failed. A second call has no effect.
func (s *Server) Close() error {
	_ = s.input.Close()
	select {
	case <-s.exited:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	if s.cmd.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("punctualtest: the server at %s failed: %s", s.Addr(), s.cmd.ProcessState)
}
