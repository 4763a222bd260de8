package punctualtest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Advance moves the clock forward and returns the new time. When it returns, all keys whose deadline
// was reached have expired, and all timers that were due have fired. The clock has milliseconds: a
// fraction of a millisecond counts as a whole one.
//
// If it fails, it ends the test, or panics if the server was started by [Run].
func (s *Server) Advance(d time.Duration) time.Time {
	s.helper()
	return s.clock("ADVANCE", int64((d+time.Millisecond-1)/time.Millisecond))
}

// SetTime moves the clock to a time, which must not be earlier than the clock's, as [Server.Advance]
// does.
func (s *Server) SetTime(to time.Time) time.Time {
	s.helper()
	return s.clock("SET", to.UnixMilli())
}

// Now returns the time of the server's clock.
func (s *Server) Now() time.Time {
	s.helper()
	return s.clock("NOW")
}

func (s *Server) helper() {
	if s.t != nil {
		s.t.Helper()
	}
}

func (s *Server) clock(action string, arguments ...int64) time.Time {
	s.helper()
	now, err := s.ask(action, arguments)
	if err == nil {
		return time.UnixMilli(now)
	}
	err = fmt.Errorf("punctualtest: CLOCK %s: %w", action, err)
	if s.t == nil {
		panic(err)
	}
	s.t.Fatal(err)
	return time.Time{}
}

// ask runs a command of the clock on a connection of its own, and returns the reply.
func (s *Server) ask(action string, arguments []int64) (int64, error) {
	connection, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	words := []string{"CLOCK", action}
	for _, argument := range arguments {
		words = append(words, strconv.FormatInt(argument, 10))
	}
	request := encode(words...)
	if s.password != "" {
		request = append(encode("AUTH", s.password), request...)
	}
	if _, err := connection.Write(request); err != nil {
		return 0, err
	}
	for lines := bufio.NewReader(connection); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return 0, err
		}
		line = strings.TrimSpace(line)
		if number, is := strings.CutPrefix(line, ":"); is {
			return strconv.ParseInt(number, 10, 64)
		}
		if line != "+OK" { // the reply to AUTH
			return 0, errors.New(strings.TrimPrefix(line, "-"))
		}
	}
}

// encode returns a command in Redis's protocol.
func encode(words ...string) []byte {
	bytes := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		bytes = fmt.Appendf(bytes, "$%d\r\n%s\r\n", len(word), word)
	}
	return bytes
}
