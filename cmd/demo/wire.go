package main

import (
	"bytes"
	"context"
	"sync"
)

// wire is the network between one worker and the servers. The parent can hold it
// up in each direction.
type wire struct {
	requests, answers gate

	mu   sync.Mutex
	trap *trap
}

// trap holds the wire up when a certain request passes.
type trap struct {
	mark              []byte // is in the request
	requests, answers bool   // what to hold
	sprung            chan struct{}
}

// hold says which directions are held up from now on; what waits in the others
// goes on.
func (w *wire) hold(requests, answers bool) {
	w.requests.set(requests)
	w.answers.set(answers)
}

// holdAt does so when a request that contains mark has left the worker, that
// request included, and closes the channel then. Only then: what the driver may
// have to ask before it can send that request passes.
func (w *wire) holdAt(mark string, requests, answers bool) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = &trap{[]byte(mark), requests, answers, make(chan struct{})}
	return w.trap.sprung
}

// passing is told of all that leaves the worker, before it is carried on.
func (w *wire) passing(data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.trap; t != nil && bytes.Contains(data, t.mark) {
		w.hold(t.requests, t.answers)
		close(t.sprung)
		w.trap = nil
	}
}

// gate lets pass or holds up. The zero gate is open.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed when the gate opens; nil: it is open
}

func (g *gate) set(held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case held && g.open == nil:
		g.open = make(chan struct{})
	case !held && g.open != nil:
		close(g.open)
		g.open = nil
	}
}

// pass waits until the gate is open; false: ctx ended first.
func (g *gate) pass(ctx context.Context) bool {
	for {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		if open == nil {
			return ctx.Err() == nil
		}
		select {
		case <-open:
		case <-ctx.Done():
			return false
		}
	}
}
