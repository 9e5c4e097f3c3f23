package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// memoryStage plays within this process: workers are goroutines, the authority is
// package memory, the table is a struct. A frozen worker is one that nothing gets
// out of, and nothing into: no request, no answer, no command, no event.
type memoryStage struct {
	authority *memory.Store
	memory    *memoryTable
	timing    ownership.Timing

	mu     sync.Mutex
	actors []*localActor
}

func newMemoryStage(timing ownership.Timing, fenced bool) *memoryStage {
	return &memoryStage{authority: memory.NewStore(memory.StoreOptions{}), memory: &memoryTable{fenced: fenced}, timing: timing}
}

func (s *memoryStage) store() lease.Store { return s.authority }
func (s *memoryStage) table() view        { return s.memory }

func (s *memoryStage) start(ctx context.Context, name string) (actor, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &localActor{
		name: name, cancel: cancel,
		commands: make(chan command, 8), out: make(chan event, 64), done: make(chan struct{}),
	}
	view := s.authority.Client(name)
	view.Observe(func(r memory.Request) {
		if r.Answered {
			a.net.answers.pass(ctx)
			a.awake.pass(ctx)
			return
		}
		a.awake.pass(ctx)
		a.net.requests.pass(ctx)
	})
	w := &worker{
		name: name, store: view, timing: s.timing,
		ledger:  &memoryClient{table: s.memory, actor: a},
		receive: func() (command, bool) { return a.receive(ctx) },
		send:    func(e event) { a.report(ctx, e) },
	}
	go func() {
		defer close(a.done)
		defer a.end()
		if err := w.serve(ctx); err != nil && ctx.Err() == nil {
			a.err = err
			w.send(event{What: evFailed, Error: err.Error()})
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors = append(s.actors, a)
	return a, nil
}

func (s *memoryStage) close() {
	s.mu.Lock()
	actors := s.actors
	s.actors = nil
	s.mu.Unlock()
	for _, a := range actors {
		a.net.hold(false, false)
		a.awake.set(false)
		a.cancel()
		<-a.done
	}
}

// localActor is a worker in a goroutine.
type localActor struct {
	name     string
	net      wire
	awake    gate
	commands chan command
	out      chan event
	cancel   context.CancelFunc
	done     chan struct{}
	err      error // why it ended; read after done

	mu    sync.Mutex // guards the sending to out, and its end
	ended bool
}

func (a *localActor) describe() string     { return "" }
func (a *localActor) send(c command)       { a.commands <- c }
func (a *localActor) events() <-chan event { return a.out }
func (a *localActor) wire() *wire          { return &a.net }
func (a *localActor) thaw() error          { a.awake.set(false); return nil }

func (a *localActor) freeze(context.Context) error {
	a.awake.set(true)
	return nil
}

func (a *localActor) wait(ctx context.Context) error {
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// receive is the worker's side of send.
func (a *localActor) receive(ctx context.Context) (command, bool) {
	select {
	case c := <-a.commands:
		return c, a.awake.pass(ctx)
	case <-ctx.Done():
		return command{}, false
	}
}

// report is the worker's side of events. A hook may still report when the worker
// has ended.
func (a *localActor) report(ctx context.Context, e event) {
	if !a.awake.pass(ctx) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	select {
	case a.out <- e:
	case <-ctx.Done():
	}
}

func (a *localActor) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	close(a.out)
}

// memoryTable is the ledger in memory. Fenced, it follows the contract of package
// fence: it keeps the highest token shown to it, and check and effect are one
// atomic step.
type memoryTable struct {
	fenced bool

	mu  sync.Mutex
	row entry
}

func (t *memoryTable) read(context.Context) (entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.row, nil
}

func (t *memoryTable) peek(ctx context.Context) (entry, error) { return t.read(ctx) }

func (t *memoryTable) takeOver(_ context.Context, s fence.Stamp) (entry, fence.Verdict, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fenced {
		if s.Token < t.row.fence {
			return entry{}, fence.Stale, t.stale(s)
		}
		t.row.fence = s.Token
	}
	return t.row, fence.Accepted, nil
}

func (t *memoryTable) write(_ context.Context, s fence.Stamp, value string) (fence.Verdict, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fenced {
		if s.Token < t.row.fence {
			return fence.Stale, t.stale(s)
		}
		t.row.fence = s.Token
	}
	t.row.value, t.row.by = value, s.Token
	return fence.Accepted, nil
}

func (t *memoryTable) stale(s fence.Stamp) error {
	return &fence.StaleError{Resource: "the table", Token: s.Token, Current: t.row.fence}
}

// memoryClient is one worker's connection to the table.
type memoryClient struct {
	table *memoryTable
	actor *localActor
}

func (c *memoryClient) takeOver(ctx context.Context, s fence.Stamp) (e entry, v fence.Verdict, err error) {
	var answer error
	if err := c.trip(ctx, "", func() { e, v, answer = c.table.takeOver(ctx, s) }); err != nil {
		return entry{}, fence.Unknown, err
	}
	return e, v, answer
}

func (c *memoryClient) write(ctx context.Context, s fence.Stamp, value string) (v fence.Verdict, err error) {
	var answer error
	if err := c.trip(ctx, value, func() { v, answer = c.table.write(ctx, s, value) }); err != nil {
		return fence.Unknown, err
	}
	return v, answer
}

// trip carries a request to the table and its answer back. Once it has left the
// worker, only the wire holds it up: a frozen sender does not.
func (c *memoryClient) trip(ctx context.Context, carries string, apply func()) error {
	if !c.actor.awake.pass(ctx) {
		return context.Cause(ctx)
	}
	c.actor.net.passing([]byte(carries))
	if !c.actor.net.requests.pass(ctx) {
		return fmt.Errorf("%w: %w", ownership.ErrUnknown, context.Cause(ctx))
	}
	apply()
	if !c.actor.net.answers.pass(ctx) || !c.actor.awake.pass(ctx) {
		return fmt.Errorf("%w: %w", ownership.ErrUnknown, context.Cause(ctx))
	}
	return nil
}
