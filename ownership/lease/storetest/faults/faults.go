// Package faults puts faults between a client and a [lease.Store], any store:
// requests that are lost, answers that are lost or late, silence. Package memory
// has it built in; ownershiptest uses it on real servers.
package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// ErrInjected is matched by the error of every fault that was injected.
var ErrInjected = errors.New("injected fault")

// Op is a kind of request: the methods of [lease.Store].
type Op string

// The kinds of requests. An empty Op in a [Fault] stands for all of them.
const (
	OpOpen        Op = "open"
	OpRenew       Op = "renew"
	OpKill        Op = "kill"
	OpRevoke      Op = "revoke"
	OpEnd         Op = "end"
	OpSession     Op = "session"
	OpClaim       Op = "claim"
	OpRelease     Op = "release"
	OpGrants      Op = "grants"
	OpPeek        Op = "peek"
	OpPeekSession Op = "peek session"
)

// Request describes one request to those who watch or pick requests.
type Request struct {
	Client    string // name of the view it came through
	Op        Op
	Session   lease.ID
	Seq       int64
	Bucket    string
	Resources []string // read only
	Attempt   lease.ID
	Token     ownership.Token // of a claim: the one asked for

	// Answered is false when the request begins and true when its answer is
	// about to be returned; the two fields below belong to the latter. The
	// outcome of a read that went well is Applied.
	Answered bool
	Outcome  ownership.Outcome
	Err      error
}

// Mode is what happens to a request that a [Fault] hits.
type Mode string

// The modes. A read that one of the first four hits fails with an error.
const (
	// Lose: unknown at once; never applied.
	Lose Mode = "lose"
	// LoseAnswer: applied at once, and yet unknown.
	LoseAnswer Mode = "lose answer"
	// Late: unknown at once; applied after Fault.Delay, or, if that is 0, when
	// [Store.Deliver] is called.
	Late Mode = "late"
	// Reject: not applied, for a reason that says nothing about the state.
	Reject Mode = "reject"
	// Slow: applied after Fault.Delay and answered then. If the context ends
	// first the outcome is unknown, and it is applied all the same.
	Slow Mode = "slow"
	// SlowAnswer: applied at once, answered after Fault.Delay; unknown if the
	// context ends first.
	SlowAnswer Mode = "slow answer"
	// Hang: unknown when the context ends; never applied.
	Hang Mode = "hang"
)

// Fault hits requests of one view. See [Store.Inject].
type Fault struct {
	// Op is the kind of request; empty: any.
	Op Op
	// If, when set, must be true of the request, too. It must not call the store.
	If func(Request) bool
	// Nth is the first matching request that is hit, counted from 1 and from
	// the moment of injection; 0 means 1.
	Nth int
	// Times is how many matching requests in a row are hit; 0 means 1, and a
	// negative number all from then on.
	Times int
	Mode  Mode
	Delay time.Duration

	healed <-chan struct{} // ends a Hang early
}

// Store is a [lease.Store] that passes requests on to another, through the
// faults that were injected. It is one client's connection: several on one store
// have faults of their own.
type Store struct {
	inner lease.Store
	name  string

	mu       sync.Mutex
	cut      chan struct{} // closed by Heal; nil: not cut off
	injected []*Fault
	counts   map[Op]int
	observe  func(Request)
	late     []func()
}

var _ lease.Store = (*Store)(nil)

// Wrap returns a Store over inner. The name is told to observers.
func Wrap(name string, inner lease.Store) *Store { return &Store{name: name, inner: inner} }

// Inject adds a fault to this view. Of several that match a request the first
// one injected hits it; the others count it all the same.
func (s *Store) Inject(f Fault) {
	f.Nth = max(f.Nth, 1)
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.injected = append(s.injected, &f)
}

// Cut makes the authority unreachable for this view, without a word: every
// request that begins from now on is a [Hang] that ends at the latest with Heal,
// as a connection is reset once the network is back.
func (s *Store) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut == nil {
		s.cut = make(chan struct{})
	}
}

// Heal undoes Cut and removes all injected faults. What a fault has already hit
// stays hit; requests that are late are still delivered.
func (s *Store) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil {
		close(s.cut)
		s.cut = nil
	}
	s.injected = nil
}

// Deliver applies, in the order they were sent, all requests of this view that a
// [Late] without a delay keeps back, and returns how many there were.
func (s *Store) Deliver() int {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	for _, apply := range late {
		apply()
	}
	return len(late)
}

// Observe sets the function that hears of every request of this view, when it
// begins (before it is sent; f may cancel its context, block, or inject a fault
// that hits this very request) and when it is answered. nil removes it.
func (s *Store) Observe(f func(Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = f
}

// Counts returns how many requests of each kind have begun on this view.
func (s *Store) Counts() map[Op]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// begin counts the request, tells the observer and picks what will happen to it.
func (s *Store) begin(req Request) Fault {
	s.mu.Lock()
	if s.counts == nil {
		s.counts = make(map[Op]int)
	}
	s.counts[req.Op]++
	observe := s.observe
	s.mu.Unlock()
	if observe != nil {
		observe(req)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil {
		return Fault{Mode: Hang, healed: s.cut}
	}
	var hit Fault
	kept := s.injected[:0]
	for _, x := range s.injected {
		if (x.Op == "" || x.Op == req.Op) && (x.If == nil || x.If(req)) {
			if x.Nth--; x.Nth <= 0 {
				if hit.Mode == "" {
					hit = *x
				}
				x.Times--
			}
		}
		if x.Times != 0 {
			kept = append(kept, x)
		}
	}
	clear(s.injected[len(kept):])
	s.injected = kept
	return hit
}

func (s *Store) answered(req Request, o ownership.Outcome, err error) {
	s.mu.Lock()
	observe := s.observe
	s.mu.Unlock()
	if observe != nil {
		req.Answered, req.Outcome, req.Err = true, o, err
		observe(req)
	}
}

// lateTime bounds a request that goes on after its caller has turned away.
const lateTime = 30 * time.Second

// change sends one change through whatever fault hits it.
func change[T any](ctx context.Context, s *Store, req Request, send func(context.Context) lease.Result[T]) lease.Result[T] {
	req.Client = s.name
	fault := s.begin(req)
	r := hit(ctx, s, req, fault, send)
	s.answered(req, r.Outcome, r.Err)
	return r
}

func hit[T any](ctx context.Context, s *Store, req Request, fault Fault, send func(context.Context) lease.Result[T]) lease.Result[T] {
	if err := context.Cause(ctx); err != nil {
		return lease.NotSent[T](fmt.Errorf("%s was not sent: %w", req.Op, err))
	}
	unknown := func() lease.Result[T] { return lease.Unknown[T](injected(ctx, req, fault)) }
	late := func() lease.Result[T] {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTime)
		defer cancel()
		return send(ctx)
	}
	switch fault.Mode {
	case Lose:
		return unknown()
	case LoseAnswer:
		send(ctx)
		return unknown()
	case Late:
		if fault.Delay > 0 {
			time.AfterFunc(fault.Delay, func() { late() })
		} else {
			s.mu.Lock()
			s.late = append(s.late, func() { late() })
			s.mu.Unlock()
		}
		return unknown()
	case Reject:
		return lease.NotSent[T](injected(ctx, req, fault))
	case Slow:
		answer := make(chan lease.Result[T], 1)
		time.AfterFunc(fault.Delay, func() { answer <- late() })
		select {
		case r := <-answer:
			return r
		case <-ctx.Done():
			return unknown()
		}
	case SlowAnswer:
		r := send(ctx)
		if !pause(ctx, fault.Delay) {
			return unknown()
		}
		return r
	case Hang:
		select {
		case <-ctx.Done():
		case <-fault.healed:
		}
		return unknown()
	}
	return send(ctx)
}

// read is change for a request that changes nothing.
func read[T any](ctx context.Context, s *Store, req Request, send func(context.Context) (T, error)) (T, error) {
	var none T
	r := change(ctx, s, req, func(ctx context.Context) lease.Result[T] {
		v, err := send(ctx)
		if err != nil {
			return lease.NotSent[T](err)
		}
		return lease.Result[T]{Outcome: ownership.Applied, Current: v}
	})
	if r.Outcome != ownership.Applied {
		return none, r.Err
	}
	return r.Current, nil
}

func injected(ctx context.Context, req Request, fault Fault) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%s: %w (%s): %w", req.Op, ErrInjected, fault.Mode, err)
	}
	return fmt.Errorf("%s: %w (%s)", req.Op, ErrInjected, fault.Mode)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
