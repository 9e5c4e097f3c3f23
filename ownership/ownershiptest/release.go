package ownershiptest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// DESIGN 2.2, 8.3: a release is final, repeatable, and frees at once.
func testReleaseFrees(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := a.take(e.name())
	work := t.Context()
	a.release(t)
	e.wantState(t, ownership.Released)
	e.wantEnded(t, work, ownership.ErrReleased)
	if !errors.Is(context.Cause(work), ownership.ErrReleased) {
		e.Errorf("the work was cancelled because of %v", context.Cause(work))
	}
	e.vacantFor(b, t)
	u := b.take(t.Resource())
	a.release(t) // once more: nothing to do, and nothing done
	e.wantHeld(u)
	b.release(u)
	again := a.take(t.Resource())
	if again == t || again.Token() <= u.Token() {
		e.Fatalf("acquired again under token %d after %d", again.Token(), u.Token())
	}
	e.wantState(t, ownership.Released)
	if n := a.entered(t, ownership.Released); n != 1 {
		e.Errorf("released %d times", n)
	}
}

// pinniped#800, kubernetes PR #139991, DESIGN 2.6: the grant goes back when the
// work has ended, not when somebody asks for it.
func testReleaseAfterWork(e *env) {
	a, b := e.process("alice"), e.process("bob")
	r := e.name()
	begun, finish := make(chan *ownership.Tenure, 1), make(chan struct{})
	var wg sync.WaitGroup
	ctx := e.ctx()
	var ended atomic.Bool
	wg.Go(func() {
		err := ownership.Run(ctx, a, r, func(_ context.Context, t *ownership.Tenure) error {
			select {
			case begun <- t:
				<-finish // deaf to its context
				ended.Store(true)
			default: // acquired anew
			}
			return nil
		})
		if err != nil {
			e.Errorf("Run: %v", err)
		}
	})
	t := <-begun
	if err := t.Release(canceled); !errors.Is(err, ownership.ErrDraining) {
		e.Errorf("Release while the body works, under an ended context: %v, want ErrDraining", err)
	}
	e.wantState(t, ownership.Released)
	got := make(chan *ownership.Tenure, 1)
	wg.Go(func() {
		u, err := b.Acquire(ctx, r)
		if err != nil {
			e.Errorf("Acquire: %v", err)
		} else if !ended.Load() && time.Now().Before(t.Deadline()) {
			e.Error("let in while the work went on, before the deadline that it was told")
		}
		got <- u
	})
	e.pass(e.timing.Usable()/4, "while the body works", func() error {
		if t.State() != ownership.Released {
			return fmt.Errorf("the tenure is %s", t.State())
		}
		return nil
	})
	close(finish)
	if u := <-got; u != nil {
		b.own(u)
		e.wantHeld(u)
		b.release(u) // Run goes on
	}
	wg.Wait()
}

// etcd#22082, nexspence#223, DESIGN 8.3: an old tenure cannot release a newer one.
func testLateRelease(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := a.take(e.name())
	a.Cut()
	u := b.acquire(t.Resource())
	a.Heal()
	for range 3 {
		_ = t.Release(e.ctx())
		e.wantHeld(u)
		h, err := a.Holder(e.ctx(), t.Resource())
		if err != nil || h.Owner != u.Owner() || h.Token != u.Token() {
			e.Fatalf("after a late release: %v, %v; want %v under token %d", h, err, u.Owner(), u.Token())
		}
	}
	e.pass(e.timing.TTL, "after late releases", func() error { return u.Ensure(0) })
}

// DESIGN 5, Release; temporal#2272: a release whose outcome is unknown is settled,
// and the resource is free without waiting for a lease to run out.
func testReleaseLostAnswer(e *env) {
	for _, mode := range []Failure{LoseAnswer, LoseRequest, Late, Reject} {
		for n := 1; n <= 2; n++ {
			a, b := e.process("alice"), e.process("bob")
			keeper := a.take(e.name())
			t := a.take(e.name())
			a.Fail(mode, n)
			a.release(t)
			b.take(t.Resource())
			e.wantHeld(keeper)
		}
	}
}

// A Release that is not waited for happens all the same.
func testReleaseInBackground(e *env) {
	a, b := e.process("alice"), e.process("bob")
	keeper := a.take(e.name())
	t := a.take(e.name())
	if err := t.Release(canceled); err != nil && !errors.Is(err, ownership.ErrUnknown) {
		e.Errorf("Release under an ended context: %v, want ErrUnknown or nil", err)
	}
	e.wantState(t, ownership.Released)
	b.acquire(t.Resource())
	e.wantHeld(keeper)
}

// kubernetes PR #139991, DESIGN 2.6: not held, cancelled, drained, released, in
// this order.
func testCloseOrder(e *env) {
	a, b := e.process("alice"), e.process("bob")
	r, idle := e.name(), a.take(e.name())
	begun := make(chan *ownership.Tenure, 1)
	var wg sync.WaitGroup
	ctx := e.ctx()
	wg.Go(func() {
		err := ownership.Run(ctx, a, r, func(ctx context.Context, t *ownership.Tenure) error {
			begun <- t
			<-ctx.Done()
			if s := t.State(); s == ownership.Held {
				e.Error("cancelled while still held")
			}
			if !errors.Is(context.Cause(ctx), ownership.ErrClosed) {
				e.Errorf("the body was cancelled because of %v, want ErrClosed", context.Cause(ctx))
			}
			if u, err := b.TryAcquire(e.ctx(), r); err == nil {
				b.own(u)
				e.Error("let in before the body had ended")
			}
			return ctx.Err()
		})
		if !errors.Is(err, ownership.ErrClosed) {
			e.Errorf("Run after Close: %v, want ErrClosed", err)
		}
	})
	t := <-begun
	wg.Go(func() {
		<-idle.Done()
		_ = idle.Release(ctx)
	})
	if err := a.Close(ctx); err != nil {
		e.Fatalf("Close: %v", err)
	}
	wg.Wait()
	e.wantState(t, ownership.Released)
	e.wantState(idle, ownership.Released)
	// At once: nobody waits for a lease of a process that closed in order.
	b.take(r)
	b.take(idle.Resource())
}

// Nomad's LockLeaser: no panic on close; Close is idempotent, and final.
func testCloseIdempotent(e *env) {
	a := e.process("alice")
	t := a.take(e.name())
	a.release(t)
	var wg sync.WaitGroup
	for range 3 {
		ctx := e.ctx()
		wg.Go(func() {
			if err := a.Close(ctx); err != nil {
				e.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	if err := a.Close(e.ctx()); err != nil {
		e.Errorf("Close once more: %v", err)
	}
	_, acquire := a.Acquire(e.ctx(), t.Resource())
	_, try := a.TryAcquire(e.ctx(), t.Resource())
	_, holder := a.Holder(e.ctx(), t.Resource())
	var watch error
	for _, err := range a.Watch(e.ctx(), t.Resource()) {
		watch = err
	}
	run := ownership.Run(e.ctx(), a, t.Resource(), func(context.Context, *ownership.Tenure) error {
		e.Error("a body began after Close")
		return nil
	})
	for what, err := range map[string]error{"Acquire": acquire, "TryAcquire": try, "Holder": holder, "Watch": watch, "Run": run} {
		if !errors.Is(err, ownership.ErrClosed) {
			e.Errorf("%s after Close: %v, want ErrClosed", what, err)
		}
	}
	a.release(t)

	unused := e.process("unused")
	if err := unused.Close(e.ctx()); err != nil {
		e.Errorf("Close of one that was never used: %v", err)
	}
}

// controller-runtime#2719: closing while acquiring never yields a tenure that is
// held, never runs a body, and leaves no grant behind.
func testCloseWhileAcquiring(e *env) {
	b := e.process("bob")
	held := b.take(e.name())
	for point := range 8 {
		a := e.process("alice")
		var (
			wg      sync.WaitGroup
			running atomic.Bool
			closed  atomic.Bool
			reached atomic.Int64
			names   []string
		)
		closing := make(chan struct{})
		a.Observe(func(Request) {
			if reached.Add(1) == int64(2*point+1) {
				close(closing)
			}
		})
		ctx := e.ctx()
		for range 4 {
			names = append(names, e.name())
		}
		for _, r := range append(names, held.Resource()) {
			wg.Go(func() {
				t, err := a.Acquire(ctx, r)
				switch {
				case err == nil:
					if closed.Load() && t.State() == ownership.Held {
						e.Errorf("%s is held after Close", r)
					}
					<-t.Done()
					_ = t.Release(ctx)
				case !errors.Is(err, ownership.ErrClosed):
					e.Errorf("Acquire of %s, closed meanwhile: %v, want ErrClosed", r, err)
				}
			})
		}
		wg.Go(func() {
			err := ownership.Run(ctx, a, held.Resource(), func(ctx context.Context, _ *ownership.Tenure) error {
				running.Store(true)
				<-ctx.Done()
				return ctx.Err()
			})
			if !errors.Is(err, ownership.ErrClosed) {
				e.Errorf("Run, closed meanwhile: %v", err)
			}
		})
		<-closing
		if err := a.Close(ctx); err != nil {
			e.Errorf("Close: %v", err)
		}
		closed.Store(true)
		wg.Wait()
		if running.Load() {
			e.Error("a body ran for a resource that was held by another all the time")
		}
		for _, r := range names {
			b.release(b.take(r)) // at once, or a grant was left
		}
	}
	e.wantHeld(held)
}

// sarama#3491, franz-go#1500: teardown is bounded, whatever the work does. Then
// nobody is let in before the deadline that the work was told.
func testCloseBounded(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := a.take(e.name()) // never released: work that does not end
	ctx, cancel := context.WithTimeout(e.ctx(), e.timing.TTL/10)
	defer cancel()
	begun := time.Now()
	err := a.Close(ctx)
	if !errors.Is(err, ownership.ErrDraining) {
		e.Fatalf("Close while work goes on: %v, want ErrDraining", err)
	}
	if d := time.Since(begun); e.h.VirtualTime && d > e.timing.TTL/10+e.timing.RequestTimeout || d > e.bound() {
		e.Errorf("Close took %v under a context of %v", d, e.timing.TTL/10)
	}
	e.wantNotHeld(t)
	u := b.acquire(t.Resource())
	if u.Token() <= t.Token() {
		e.Fatalf("token %d after %d", u.Token(), t.Token())
	}
	if early := time.Until(t.Deadline()); early > 0 {
		e.Errorf("given away %v before the deadline that the work was told", early)
	}
}

// The same when it is the authority that does not answer.
func testCloseCutOff(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := a.take(e.name())
	work := t.Context()
	a.Cut()
	release, cancel := context.WithTimeout(e.ctx(), e.timing.TTL/10)
	defer cancel()
	if err := t.Release(release); !errors.Is(err, ownership.ErrUnknown) {
		e.Errorf("Release without an answer: %v, want ErrUnknown", err)
	}
	ctx, cancel := context.WithTimeout(e.ctx(), e.timing.TTL/10)
	defer cancel()
	if err := a.Close(ctx); err == nil {
		e.Error("Close without an answer says that all went well")
	}
	if work.Err() == nil {
		e.Error("the work goes on")
	}
	u := b.acquire(t.Resource()) // by expiry
	if u.Token() <= t.Token() {
		e.Fatalf("token %d after %d", u.Token(), t.Token())
	}
}

// river PRs #217, #286: no renewal after resignation.
func testSilentAfterClose(e *env) {
	a := e.process("alice")
	a.release(a.take(e.name()))
	t := a.take(e.name())
	a.release(t)
	if err := a.Close(e.ctx()); err != nil {
		e.Fatalf("Close: %v", err)
	}
	var sent atomic.Int64
	a.Observe(func(Request) { sent.Add(1) })
	e.pass(3*e.timing.RenewEvery, "after Close", func() error {
		if n := sent.Load(); n > 0 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
}

// kubernetes#112023: Close resolves a renewal of its own that is under way, so
// that its successor need not wait for the lease to run out.
func testCloseDuringRenewal(e *env) {
	for _, mode := range []Failure{LoseAnswer, LoseRequest, Late} {
		a, b := e.process("alice"), e.process("bob")
		t := a.take(e.name())
		renewing := make(chan struct{})
		var once sync.Once
		a.Fail(mode, 1)
		a.Observe(func(r Request) {
			if r.Change && !r.Answered {
				once.Do(func() { close(renewing) })
			}
		})
		<-renewing
		var wg sync.WaitGroup
		ctx := e.ctx()
		wg.Go(func() {
			if err := t.Release(ctx); err != nil {
				e.Errorf("%q: Release: %v", mode, err)
			}
		})
		if err := a.Close(ctx); err != nil {
			e.Errorf("%q: Close: %v", mode, err)
		}
		wg.Wait()
		b.take(t.Resource())
	}
}
