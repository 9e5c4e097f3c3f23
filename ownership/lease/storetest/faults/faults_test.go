package faults_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// With no fault injected every request passes unchanged: package memory's tests
// run storetest through one of these.

// open sends one change and tells what the caller hears, how long it took, and
// whether it is applied at that moment and a minute later.
func open(t *testing.T, s *memory.Store, timeout time.Duration) (r lease.Result[lease.Session], took time.Duration, now, later bool) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	id := lease.NewID()
	start := time.Now()
	r = s.Open(ctx, lease.Session{ID: id, Owner: "w", TTL: time.Hour})
	took = time.Since(start)
	clean := s.Client("another")
	look := func() bool {
		c, err := clean.Session(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return c.Found
	}
	now = look()
	time.Sleep(time.Minute)
	return r, took, now, look()
}

func TestModes(t *testing.T) {
	const delay, timeout = 2 * time.Second, 5 * time.Second
	for _, c := range []struct {
		name       string
		fault      memory.Fault
		outcome    ownership.Outcome
		took       time.Duration
		now, later bool
	}{
		{"none", memory.Fault{Op: memory.OpClaim, Mode: memory.Lose}, ownership.Applied, 0, true, true},
		{"lose", memory.Fault{Mode: memory.Lose}, ownership.Unknown, 0, false, false},
		{"lose answer", memory.Fault{Mode: memory.LoseAnswer}, ownership.Unknown, 0, true, true},
		{"late", memory.Fault{Mode: memory.Late, Delay: delay}, ownership.Unknown, 0, false, true},
		{"late until delivered", memory.Fault{Mode: memory.Late}, ownership.Unknown, 0, false, false},
		{"reject", memory.Fault{Mode: memory.Reject}, ownership.NotApplied, 0, false, false},
		{"slow", memory.Fault{Mode: memory.Slow, Delay: delay}, ownership.Applied, delay, true, true},
		{"slow, given up", memory.Fault{Mode: memory.Slow, Delay: 2 * timeout}, ownership.Unknown, timeout, false, true},
		{"slow answer", memory.Fault{Mode: memory.SlowAnswer, Delay: delay}, ownership.Applied, delay, true, true},
		{"slow answer, given up", memory.Fault{Mode: memory.SlowAnswer, Delay: 2 * timeout}, ownership.Unknown, timeout, true, true},
		{"hang", memory.Fault{Mode: memory.Hang}, ownership.Unknown, timeout, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.NewStore(memory.StoreOptions{}).Client("faulty")
				s.Inject(c.fault)
				r, took, now, later := open(t, s, timeout)
				if r.Outcome != c.outcome || took != c.took || now != c.now || later != c.later {
					t.Errorf("%v after %v, applied at once %v, later %v; want %v after %v, %v, %v",
						r.Outcome, took, now, later, c.outcome, c.took, c.now, c.later)
				}
				if c.outcome == ownership.Applied != (r.Err == nil) || r.Err != nil && !errors.Is(r.Err, memory.ErrInjected) {
					t.Errorf("the error is %v", r.Err)
				}
				if n := s.Deliver(); n > 0 != (c.name == "late until delivered") {
					t.Errorf("%d requests were delivered late", n)
				}
				if r, _, _, _ := open(t, s, timeout); r.Outcome != ownership.Applied {
					t.Errorf("the next one is %v", r.Outcome)
				}
			})
		})
	}
}

func TestNthAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore(memory.StoreOptions{}).Client("faulty")
		s.Inject(memory.Fault{Op: memory.OpOpen, Nth: 2, Times: 2, Mode: memory.Lose})
		s.Inject(memory.Fault{Op: memory.OpSession, Times: -1, Mode: memory.Lose})
		for i, want := range []ownership.Outcome{ownership.Applied, ownership.Unknown, ownership.Unknown, ownership.Applied} {
			if r, _, _, _ := open(t, s, time.Second); r.Outcome != want {
				t.Errorf("request %d: %v, want %v", i+1, r.Outcome, want)
			}
			if _, err := s.Session(t.Context(), lease.NewID()); !errors.Is(err, memory.ErrInjected) {
				t.Errorf("read %d: %v", i+1, err)
			}
		}
		if n := s.Counts(); n[memory.OpOpen] != 4 || n[memory.OpSession] != 4 {
			t.Errorf("counted %v", n)
		}
		s.Heal()
		if _, err := s.Session(t.Context(), lease.NewID()); err != nil {
			t.Errorf("healed: %v", err)
		}
	})
}

// Cut is silent and for one view alone; Heal ends what hangs.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore(memory.StoreOptions{}).Client("faulty")
		s.Cut()
		s.Cut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := s.Session(ctx, lease.NewID()); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("cut off: %v after %v", err, time.Since(start))
		}
		if _, err := s.Client("another").Session(t.Context(), lease.NewID()); err != nil {
			t.Errorf("another view: %v", err)
		}
		go func() {
			time.Sleep(time.Minute)
			s.Heal()
		}()
		start = time.Now()
		if _, err := s.Session(t.Context(), lease.NewID()); err == nil || time.Since(start) != time.Minute {
			t.Errorf("healed meanwhile: %v after %v", err, time.Since(start))
		}
		if _, err := s.Session(t.Context(), lease.NewID()); err != nil {
			t.Errorf("healed: %v", err)
		}
	})
}

// An observer hears of a request before it is sent, and may end its context.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore(memory.StoreOptions{}).Client("faulty")
		ctx, cancel := context.WithCancel(t.Context())
		var heard []memory.Request
		s.Observe(func(r memory.Request) {
			heard = append(heard, r)
			cancel()
		})
		id := lease.NewID()
		r := s.Open(ctx, lease.Session{ID: id, Owner: "w", TTL: time.Hour})
		if r.Outcome != ownership.NotApplied || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("cancelled before it was sent: %v, %v", r.Outcome, r.Err)
		}
		if len(heard) != 2 || heard[0].Answered || !heard[1].Answered || heard[1].Outcome != ownership.NotApplied ||
			heard[0].Op != memory.OpOpen || heard[0].Client != "faulty" || heard[0].Session != id {
			t.Errorf("heard %+v", heard)
		}
		s.Observe(nil)
		if _, err := s.Session(t.Context(), id); err != nil || len(heard) != 2 {
			t.Errorf("%v; heard %d", err, len(heard))
		}
	})
}
