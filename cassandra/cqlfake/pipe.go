package cqlfake

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeConn is one end of a connection in memory. Unlike those of net.Pipe its
// writes never wait, and nothing waits with a lock held, which testing/synctest
// would not take for blocked.
type pipeConn struct {
	in, out     *stream
	local, peer *net.TCPAddr // gocql asserts this type
}

// newPipe returns the two ends of a connection from client to server.
func newPipe(client, server *net.TCPAddr) (*pipeConn, *pipeConn) {
	up, down := newStream(), newStream()
	return &pipeConn{in: down, out: up, local: client, peer: server}, &pipeConn{in: up, out: down, local: server, peer: client}
}

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close ends both directions; what is on its way to the other end still arrives.
func (c *pipeConn) Close() error {
	c.out.close(io.EOF, io.ErrClosedPipe)
	c.in.close(net.ErrClosed, io.ErrClosedPipe)
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return c.local }
func (c *pipeConn) RemoteAddr() net.Addr { return c.peer }

func (c *pipeConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(t)
	return nil
}

// SetWriteDeadline has nothing to do: a write never waits.
func (c *pipeConn) SetWriteDeadline(time.Time) error { return nil }

// stream is one direction: an unbounded buffer.
type stream struct {
	wake chan struct{} // holds one token while a reader has something to look at

	mu       sync.Mutex
	buf      []byte
	off      int   // of what has not been read yet
	readErr  error // once closed, after the buffer
	writeErr error
	deadline time.Time
}

func newStream() *stream { return &stream{wake: make(chan struct{}, 1)} }

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr != nil {
		return 0, s.writeErr
	}
	s.buf = append(s.buf, p...)
	s.signal()
	return len(p), nil
}

func (s *stream) read(p []byte) (int, error) {
	for {
		n, deadline, err := s.poll(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if deadline.IsZero() {
			<-s.wake
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		timer := time.NewTimer(left)
		select {
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// poll reads what is there.
func (s *stream) poll(p []byte) (n int, deadline time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readErr == net.ErrClosed { // by the reader's own end
		return 0, s.deadline, s.readErr
	}
	if s.off < len(s.buf) {
		n = copy(p, s.buf[s.off:])
		if s.off += n; s.off == len(s.buf) {
			s.buf, s.off = s.buf[:0], 0
		}
		if len(s.buf) > 0 || s.readErr != nil {
			s.signal() // for another reader
		}
		return n, s.deadline, nil
	}
	if s.readErr != nil {
		s.signal()
	}
	return 0, s.deadline, s.readErr
}

// close lets the reader see readErr, after what is buffered, and writers writeErr.
// The reader's own close counts more than the other end's.
func (s *stream) close(readErr, writeErr error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readErr == nil || readErr == net.ErrClosed {
		s.readErr = readErr
	}
	s.writeErr = writeErr
	s.signal()
}

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.signal()
}
