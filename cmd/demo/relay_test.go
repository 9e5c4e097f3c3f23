package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// echo is a server that returns every line with a number.
func echo(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for n, in := 1, bufio.NewScanner(conn); in.Scan(); n++ {
				fmt.Fprintf(conn, "%d %s\n", n, in.Text())
			}
			conn.Close()
		}
	}()
	return l
}

// line reads one line, or returns "" if none comes for a while.
func line(conn net.Conn, in *bufio.Reader, wait time.Duration) string {
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	s, _ := in.ReadString('\n')
	return strings.TrimSpace(s)
}

const soon, longEnough = 20 * time.Millisecond, 30 * time.Second

func dialed(t *testing.T, r *relay, to net.Listener) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := relayDialer{r.listener.Addr().String(), r.secret}.DialContext(t.Context(), "tcp", to.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if got := conn.RemoteAddr().String(); got != to.Addr().String() {
		t.Errorf("the connection says it goes to %s", got)
	}
	return conn, bufio.NewReader(conn)
}

func TestRelayHoldsEitherDirection(t *testing.T) {
	server := echo(t)
	r, err := newRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	conn, in := dialed(t, r, server)
	fmt.Fprintln(conn, "one")
	if got := line(conn, in, longEnough); got != "1 one" {
		t.Fatalf("got %q", got)
	}
	for name, dir := range map[string]struct{ requests, answers bool }{"requests": {true, false}, "answers": {false, true}, "both": {true, true}} {
		r.hold(dir.requests, dir.answers)
		fmt.Fprintln(conn, name)
		if got := line(conn, in, soon); got != "" {
			t.Fatalf("%s held: got %q", name, got)
		}
		r.hold(false, false)
		if got := line(conn, in, longEnough); !strings.HasSuffix(got, name) {
			t.Fatalf("%s released: got %q", name, got)
		}
	}
}

// The hold begins with the very request, even if that comes in pieces.
func TestRelayHoldsAtAMark(t *testing.T) {
	server := echo(t)
	r, err := newRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	conn, in := dialed(t, r, server)
	sprung := r.holdAt("A's late work", true, false)
	fmt.Fprintln(conn, "A's work")
	if got := line(conn, in, longEnough); got != "1 A's work" {
		t.Fatalf("got %q", got)
	}
	for piece := range strings.SplitSeq("A's |late| work", "|") {
		select {
		case <-sprung:
			t.Fatal("sprung before all of the mark was sent")
		default:
		}
		fmt.Fprint(conn, piece)
	}
	fmt.Fprintln(conn)
	<-sprung
	if got := line(conn, in, soon); got != "" {
		t.Fatalf("got %q", got)
	}
	r.hold(false, false)
	if got := line(conn, in, longEnough); got != "2 A's late work" {
		t.Fatalf("got %q", got)
	}
}

func TestRelayIsForItsWorkerAlone(t *testing.T) {
	server := echo(t)
	r, err := newRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	conn, err := relayDialer{r.listener.Addr().String(), "guessed"}.DialContext(context.Background(), "tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, "hello")
	if got := line(conn, bufio.NewReader(conn), longEnough); got != "" {
		t.Fatalf("got %q", got)
	}
}

// What is held when the relay closes does not keep it from closing.
func TestRelayClosesWhileItHolds(t *testing.T) {
	server := echo(t)
	r, err := newRelay()
	if err != nil {
		t.Fatal(err)
	}
	conn, in := dialed(t, r, server)
	r.hold(true, true)
	fmt.Fprintln(conn, "stuck")
	r.close()
	if got := line(conn, in, longEnough); got != "" {
		t.Fatalf("got %q", got)
	}
}
