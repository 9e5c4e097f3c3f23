package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// relay is the wire of a child process: its connections to the servers go through
// the parent, which can hold up what they carry. Data that it holds has left the
// child for good: nothing that happens to the child calls it back.
type relay struct {
	wire
	listener net.Listener
	secret   string // first word of every connection, so that nobody else uses it
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

const dialTimeout = 10 * time.Second

func newRelay() (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the connections of a worker: %w", err)
	}
	r := &relay{listener: l, secret: rand.Text()}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.work.Go(r.accept)
	return r, nil
}

// close breaks all connections and waits until nothing is left.
func (r *relay) close() {
	r.cancel()
	r.listener.Close()
	r.work.Wait()
}

func (r *relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.work.Go(func() { r.carry(conn) })
	}
}

// carry connects one connection of the child to the server that it names.
func (r *relay) carry(child net.Conn) {
	defer child.Close()
	defer context.AfterFunc(r.ctx, func() { child.Close() })()
	from := bufio.NewReader(child)
	_ = child.SetReadDeadline(time.Now().Add(dialTimeout))
	first, err := from.ReadString('\n')
	_ = child.SetReadDeadline(time.Time{})
	secret, address, _ := strings.Cut(strings.TrimSuffix(first, "\n"), " ")
	if err != nil || secret != r.secret {
		return
	}
	server, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(r.ctx, "tcp", address)
	if err != nil {
		return // the child sees its connection end
	}
	defer server.Close()
	defer context.AfterFunc(r.ctx, func() { server.Close() })()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer child.Close() // either end that closes ends both
		defer server.Close()
		r.copy(child, server, &r.answers, func([]byte) {})
	}()
	r.copy(server, from, &r.requests, r.passing)
	child.Close()
	server.Close()
	<-done
}

// copy carries data through the gate. saw is told of it before that, together
// with the end of what came before: a mark may be cut in two.
func (r *relay) copy(to io.Writer, from io.Reader, g *gate, saw func([]byte)) {
	const longestMark = 64
	buffer := make([]byte, longestMark+32<<10)
	tail := 0
	for {
		n, err := from.Read(buffer[tail:])
		if n > 0 {
			saw(buffer[:tail+n])
			if !g.pass(r.ctx) {
				return
			}
			if _, err := to.Write(buffer[tail : tail+n]); err != nil {
				return
			}
			keep := min(tail+n, longestMark)
			copy(buffer, buffer[tail+n-keep:tail+n])
			tail = keep
		}
		if err != nil {
			return
		}
	}
}

// relayDialer is the child's side.
type relayDialer struct {
	relay, secret string
}

// DialContext implements gocql's Dialer.
func (d relayDialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	server, err := net.ResolveTCPAddr("tcp", address) // the driver has looked names up
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", d.relay)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "%s %s\n", d.secret, address); err != nil {
		conn.Close()
		return nil, err
	}
	return &relayed{conn, server}, nil
}

// relayed is a connection to a server by way of a relay.
type relayed struct {
	net.Conn
	server *net.TCPAddr
}

// RemoteAddr is where gocql learns the servers' port.
func (c *relayed) RemoteAddr() net.Addr { return c.server }
