package cqlfake

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newPipe(&net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 2})
		if client.RemoteAddr().String() != server.LocalAddr().String() || server.RemoteAddr().String() != client.LocalAddr().String() {
			t.Error("the ends disagree about their addresses")
		}
		sent := bytes.Repeat([]byte("0123456789"), 100_000)
		var wg sync.WaitGroup
		wg.Go(func() {
			for chunk := sent; len(chunk) > 0; {
				n, err := client.Write(chunk[:min(len(chunk), 777)])
				if err != nil {
					t.Error(err)
					return
				}
				chunk = chunk[n:]
			}
		})
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("what arrived differs: %v", err)
		}
		wg.Wait()

		_ = server.SetReadDeadline(time.Now().Add(time.Hour))
		start := time.Now()
		if _, err := server.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Hour {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		var ne net.Error
		if _, err := server.Read(got); !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("the deadline is still over: %v", err)
		}
		_ = server.SetDeadline(time.Time{})
		wg.Go(func() { // a deadline that is set while a reader waits
			time.Sleep(time.Second)
			_ = server.SetReadDeadline(time.Now())
		})
		if _, err := server.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		wg.Wait()
		_ = server.SetDeadline(time.Time{})

		_, _ = client.Write([]byte("last"))
		_ = client.Close()
		if n, err := server.Read(got); n != 4 || err != nil {
			t.Errorf("what was under way: %d bytes, %v", n, err)
		}
		if _, err := server.Read(got); err != io.EOF {
			t.Errorf("the end: %v", err)
		}
		if _, err := server.Write([]byte("x")); err == nil {
			t.Error("written to an end that is closed")
		}
		if _, err := client.Read(got); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the own end: %v", err)
		}
	})
}
