package punctualtest

import (
	"bytes"
	"strconv"
	"sync"
)

// A log keeps the server's output, and finds the line with the port.
type log struct {
	mutex    sync.Mutex
	text     []byte
	searched int // length of the lines that were searched for the port
	ready    chan int
}

func (l *log) Write(output []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.text = append(l.text, output...)
	for {
		line, _, complete := bytes.Cut(l.text[l.searched:], []byte("\n"))
		if !complete {
			return len(output), nil
		}
		l.searched += len(line) + 1
		if digits, is := bytes.CutPrefix(line, []byte("ready port=")); is {
			if port, err := strconv.Atoi(string(digits)); err == nil {
				l.ready <- port
			}
		}
	}
}

func (l *log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return string(l.text)
}
