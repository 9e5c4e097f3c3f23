package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// modes are all that can happen to a request.
var modes = []memory.Mode{memory.Lose, memory.LoseAnswer, memory.Late, memory.Reject, memory.Slow, memory.SlowAnswer, memory.Hang}

// faults are the modes on either side of the request's time-out. A Late without a
// delay arrives only when everything else is over.
var faults = []memory.Fault{
	{Mode: memory.Lose}, {Mode: memory.LoseAnswer},
	{Mode: memory.Late, Delay: 300 * time.Millisecond}, {Mode: memory.Late, Delay: 4 * time.Second}, {Mode: memory.Late},
	{Mode: memory.Reject},
	{Mode: memory.Slow, Delay: timeout / 2}, {Mode: memory.Slow, Delay: 3 * timeout},
	{Mode: memory.SlowAnswer, Delay: timeout / 2}, {Mode: memory.SlowAnswer, Delay: 3 * timeout},
	{Mode: memory.Hang},
}

// drill is one operation that is run again and again, with one thing going wrong
// at each of its requests in turn.
type drill struct {
	name   string
	config func(*lease.Config) // of p; may be nil
	// prepare brings about the state before, on a network without faults.
	prepare func(d *drilling)
	// run is the operation. Only requests of d.p meet the fault.
	run func(d *drilling, ctx context.Context)
	// check says what must be true then. It is not called when ctx was cancelled.
	check func(d *drilling)
	// open are operations that nobody settles any more if ctx was cancelled.
	open []string
	// finally, if set, is called in either case.
	finally func(d *drilling)
}

type drilling struct {
	*world
	p, q   *process // p meets the fault, q is somebody else
	names  []string
	got    []*ownership.Tenure // of p, given back in the end
	before []*ownership.Tenure // of prepare
	err    error
}

// acquire notes the one result of an acquisition.
func (d *drilling) acquire(t *ownership.Tenure, err error) {
	if d.err = err; (t == nil) == (err == nil) {
		d.Errorf("two results, or none: %v, %v (DESIGN 8.4)", t, err)
	}
	if t != nil {
		d.got = append(d.got, t)
	}
}

func (d *drilling) wantAcquired() {
	d.Helper()
	if d.err != nil || len(d.got) == 0 {
		d.Errorf("one fault kept the acquisition from its end: %v", d.err)
	}
	for _, t := range d.got {
		if t.State() != ownership.Held {
			d.Errorf("%s is %s: %v", t.Resource(), t.State(), t.Err())
		}
	}
}

var drills = []drill{
	{
		name: "FirstAcquire",
		run:  func(d *drilling, ctx context.Context) { d.acquire(d.p.Acquire(ctx, "a")) },
		check: func(d *drilling) {
			d.wantAcquired()
		},
	},
	{
		name:    "SecondAcquire",
		prepare: func(d *drilling) { d.got = append(d.got, d.p.acquire("b")) },
		run:     func(d *drilling, ctx context.Context) { d.acquire(d.p.Acquire(ctx, "a")) },
		check:   (*drilling).wantAcquired,
	},
	{
		name:    "AcquireAgain",
		prepare: func(d *drilling) { d.release(d.p.acquire("a")) },
		run:     func(d *drilling, ctx context.Context) { d.acquire(d.p.Acquire(ctx, "a")) },
		check:   (*drilling).wantAcquired,
	},
	{
		name: "TryAcquireMany",
		prepare: func(d *drilling) {
			d.before = append(d.before, d.q.acquire("b"))
			d.got = append(d.got, d.p.acquire("d"))
		},
		run: func(d *drilling, ctx context.Context) {
			ts, err := d.p.TryAcquireMany(ctx, []string{"c", "b", "a"})
			d.got = append(d.got, ts...)
			if err == nil || len(ts) > 2 {
				d.Errorf("q holds b, but p got %d tenures and %v", len(ts), err)
			}
		},
	},
	{
		name: "TakeOverTheDead",
		open: []string{"kill"},
		prepare: func(d *drilling) {
			d.before = append(d.before, d.q.acquire("a"), d.q.acquire("b"))
			d.q.crash()
			d.pass(ttl + renewal)
		},
		run: func(d *drilling, ctx context.Context) {
			d.acquire(d.p.Acquire(ctx, "a"))
			d.acquire(d.p.Acquire(ctx, "b"))
		},
		check: (*drilling).wantAcquired,
	},
	{
		name:   "WaitForTheDeath",
		open:   []string{"kill"},
		config: func(c *lease.Config) { c.PollEvery = 4 * poll },
		prepare: func(d *drilling) {
			d.before = append(d.before, d.q.acquire("a"))
			d.got = append(d.got, d.p.acquire("b"))
			d.q.crash()
			d.pass(ttl - time.Second)
		},
		run:   func(d *drilling, ctx context.Context) { d.acquire(d.p.Acquire(ctx, "a")) },
		check: (*drilling).wantAcquired,
	},
	{
		name:    "WaitForARelease",
		prepare: func(d *drilling) { d.before = append(d.before, d.q.acquire("a")) },
		run: func(d *drilling, ctx context.Context) {
			time.AfterFunc(5*poll, func() { _ = d.before[0].Release(ctx) })
			d.acquire(d.p.Acquire(ctx, "a"))
		},
		check: (*drilling).wantAcquired,
	},
	{
		name: "AcquireOverAStray",
		open: []string{"release"},
		prepare: func(d *drilling) {
			d.got = append(d.got, d.p.acquire("b"))
			d.stray("a", d.row("b").Session)
		},
		run:   func(d *drilling, ctx context.Context) { d.acquire(d.p.Acquire(ctx, "a")) },
		check: (*drilling).wantAcquired,
		finally: func(d *drilling) {
			if d.err != nil { // given up before the stray was seen
				d.got = append(d.got, d.p.acquire("a"))
			}
		},
	},
	{
		name:    "Release",
		prepare: func(d *drilling) { d.before = append(d.before, d.p.acquire("a"), d.p.acquire("b")) },
		run: func(d *drilling, ctx context.Context) {
			err := d.before[0].Release(ctx)
			if gone := d.row("a").Free(); err == nil && !gone {
				d.Errorf("Release says that the grant is gone, but the row is %+v", d.row("a"))
			}
			if err != nil && !errors.Is(err, ownership.ErrUnknown) {
				d.Errorf("Release: %v; want nil or ErrUnknown", err)
			}
		},
		check: func(d *drilling) {
			d.wantState(d.before[0], ownership.Released)
			d.wantState(d.before[1], ownership.Held)
			if !d.row("a").Free() || d.row("b").Free() {
				d.Errorf("rows after the release of a: %+v, %+v", d.row("a"), d.row("b"))
			}
		},
	},
	{
		name: "Close",
		prepare: func(d *drilling) {
			for _, r := range []string{"a", "b"} {
				t := d.p.acquire(r)
				d.before = append(d.before, t)
				go func() { // work that obeys
					<-t.Context().Done()
					time.Sleep(300 * time.Millisecond)
					_ = t.Release(context.Background())
				}()
			}
		},
		run: func(d *drilling, ctx context.Context) {
			id := d.row("a").Session
			if err := d.p.Close(ctx); err == nil {
				if s := d.session(id); s.Alive() || !d.row("a").Free() || !d.row("b").Free() {
					d.Errorf("Close reports success, but the session is %+v, the rows %+v, %+v", s, d.row("a"), d.row("b"))
				}
			} else if !errors.Is(err, ownership.ErrUnknown) && !errors.Is(err, context.Canceled) && !errors.Is(err, ownership.ErrDraining) {
				d.Errorf("Close: %v", err)
			}
			for _, t := range d.before {
				d.wantState(t, ownership.Released)
			}
		},
		open:  []string{"release", "close"},
		check: func(d *drilling) { d.pass(ttl) }, // a session that was left ends by itself
	},
	{
		name: "Renew",
		prepare: func(d *drilling) {
			d.before = append(d.before, d.p.acquire("a"), d.p.acquire("b"))
			d.pass(renewal / 2)
		},
		run: func(d *drilling, _ context.Context) { d.pass(3 * renewal) },
		check: func(d *drilling) {
			for _, t := range d.before {
				d.wantState(t, ownership.Held)
			}
			if n := d.counts.Suspects; n > 0 {
				d.Errorf("one fault at a renewal put %d tenures in doubt", n)
			}
		},
	},
	{
		name: "RevokeAsOperator",
		prepare: func(d *drilling) {
			d.before, d.err = d.q.TryAcquireMany(d.within(time.Minute), []string{"a", "b"})
		},
		run:   func(d *drilling, ctx context.Context) { d.err = d.p.Revoke(ctx, "a") },
		open:  []string{"revoke"},
		check: (*drilling).wantRevoked,
	},
	{
		name: "RevokedAsOwner",
		prepare: func(d *drilling) {
			d.before, d.err = d.p.TryAcquireMany(d.within(time.Minute), []string{"a", "b"})
		},
		run:   func(d *drilling, ctx context.Context) { d.err = d.q.Revoke(ctx, "a"); d.pass(2 * renewal) },
		check: (*drilling).wantRevoked,
	},
	{
		name: "RevokeByForce",
		prepare: func(d *drilling) {
			d.before = append(d.before, d.q.acquire("a"), d.q.acquire("b"))
		},
		run:  func(d *drilling, ctx context.Context) { d.err = d.p.RevokeForce(ctx, "a") },
		open: []string{"kill"},
		check: func(d *drilling) {
			d.pass(renewal)
			if d.err != nil {
				d.Errorf("RevokeForce: %v", d.err)
			}
			for _, t := range d.before {
				d.wantLost(t, ownership.ErrRefused)
			}
		},
	},
	{
		name:   "Audit",
		config: func(c *lease.Config) { c.AuditEvery = renewal },
		prepare: func(d *drilling) {
			d.before = append(d.before, d.p.acquire("a"), d.p.acquire("b"))
			d.stray("a", lease.NewID())
		},
		run: func(d *drilling, _ context.Context) { d.pass(4 * renewal) },
		check: func(d *drilling) {
			d.wantLost(d.before[0], ownership.ErrRefused)
			d.wantState(d.before[1], ownership.Held)
		},
	},
}

func (d *drilling) wantRevoked() {
	d.Helper()
	d.pass(renewal + timeout)
	if d.err != nil {
		d.Errorf("Revoke: %v", d.err)
	}
	d.wantLost(d.before[0], ownership.ErrRevoked)
	d.wantState(d.before[1], ownership.Held) // although one claim won both
}

// stray writes a row by hand, as a restored backup might, or a claim that was
// given up too early.
func (w *world) stray(resource string, session lease.ID) lease.Claim {
	w.Helper()
	c := lease.Claim{
		Bucket: w.store.Bucket(resource), Fence: w.fence(resource), Next: w.fence(resource) + 1,
		Session: session, Attempt: lease.NewID(), Owner: "somebody#1",
		Rows: []lease.ClaimRow{{Resource: resource, Found: w.row(resource).Found, Over: w.row(resource).Attempt}},
	}
	if res := w.store.Claim(context.Background(), c); res.Outcome != ownership.Applied {
		w.Fatalf("writing a row by hand: %+v", res)
	}
	return c
}

// stores are the ways in which a store may lay out its rows and answer.
var stores = map[string]memory.StoreOptions{
	"BucketPerResource": {},
	"OneSparseBucket":   {Buckets: 1, Sparse: true},
}

// DESIGN 5, unknown outcome, and 8.4: whatever happens to any one request of any
// operation, there is one result, and no grant is left that nobody holds.
func TestOneFaultAnywhere(t *testing.T) {
	for name, opts := range stores {
		for _, dr := range drills {
			t.Run(dr.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				for _, fault := range faults {
					for n, hit := 1, true; hit; n++ {
						t.Run(fmt.Sprintf("%s %v at request %d", fault.Mode, fault.Delay, n), func(t *testing.T) {
							hit = dr.once(t, opts, n, func(d *drilling, ctx context.Context, _ context.CancelFunc) {
								d.p.view.Inject(fault)
							}, nil)
						})
					}
				}
			})
		}
	}
}

// An abandoned claim, whose context is cancelled at any point of it, never leaves
// a grant that nobody holds (DESIGN 5, unknown outcome); and whatever is cancelled
// returns. The cancellation comes before the request is sent, after it was applied,
// or while it is under way to every fate.
func TestCancelledAnywhere(t *testing.T) {
	type when struct {
		name     string
		begin    func(d *drilling, ctx context.Context, cancel context.CancelFunc)
		answered bool
	}
	moments := []when{
		{name: "before it is sent", begin: func(_ *drilling, _ context.Context, cancel context.CancelFunc) { cancel() }},
		{name: "at its answer", answered: true},
	}
	for _, fault := range faults {
		moments = append(moments, when{
			name: fmt.Sprintf("under way, %s %v", fault.Mode, fault.Delay),
			begin: func(d *drilling, _ context.Context, cancel context.CancelFunc) {
				d.p.view.Inject(fault)
				time.AfterFunc(timeout/4, cancel)
			},
		})
	}
	for name, opts := range stores {
		for _, dr := range drills {
			if dr.name == "Renew" || dr.name == "Audit" {
				continue // nobody's context is in them
			}
			t.Run(dr.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				dr.check = nil
				for _, m := range moments {
					for n, hit := 1, true; hit; n++ {
						t.Run(fmt.Sprintf("%s, request %d", m.name, n), func(t *testing.T) {
							var atAnswer func(cancel context.CancelFunc)
							if m.answered {
								atAnswer = func(cancel context.CancelFunc) { cancel() }
							}
							hit = dr.once(t, opts, n, m.begin, atAnswer)
						})
					}
				}
			})
		}
	}
}

// once runs the drill and calls begin at its nth request, before that is sent, and
// atAnswer when it is answered. It reports whether there was an nth request.
func (dr drill) once(t *testing.T, opts memory.StoreOptions, n int,
	begin func(d *drilling, ctx context.Context, cancel context.CancelFunc), atAnswer func(context.CancelFunc)) (hit bool) {
	scenarioOn(t, opts, func(w *world) {
		d := &drilling{world: w, q: w.process("q"), names: []string{"a", "b", "c", "d"}}
		if dr.config == nil {
			dr.config = func(*lease.Config) {}
		}
		d.p = w.process("p", dr.config)
		if dr.prepare != nil {
			dr.prepare(d)
		}
		if d.err != nil {
			t.Fatal(d.err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var requests, answers atomic.Int64
		d.p.view.Observe(func(r memory.Request) {
			switch {
			case !r.Answered && requests.Add(1) == int64(n):
				hit = true
				if begin != nil {
					begin(d, ctx, cancel)
				}
			case r.Answered && answers.Add(1) == int64(n) && atAnswer != nil:
				atAnswer(cancel)
			}
		})
		dr.run(d, ctx)
		d.p.view.Observe(nil)
		if !hit {
			return
		}
		d.p.view.Heal()
		if dr.check != nil {
			dr.check(d)
		}
		if dr.finally != nil {
			dr.finally(d)
		}
		d.pass(ttl) // what was given up is settled, whether or not somebody waits
		d.noGhost(d.names...)
		d.p.view.Deliver()
		d.pass(renewal)
		d.noGhost(d.names...)
		if dr.check != nil {
			d.settled(d.p)
		} else {
			d.settled(d.p, dr.open...)
		}
		for _, t := range append(d.got, d.before...) {
			if err := t.Release(d.within(time.Minute)); err != nil && !errors.Is(err, ownership.ErrUnknown) {
				d.Errorf("releasing %s: %v", t.Resource(), err)
			}
		}
		z := d.process("z")
		for _, r := range d.names {
			if t, err := z.Acquire(d.within(2*ttl), r); err != nil {
				d.Errorf("after all is over %s cannot be acquired: %v", r, err)
			} else {
				d.release(t)
			}
		}
	})
	return hit
}
