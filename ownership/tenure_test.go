package ownership_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// DESIGN 2: Acquiring → Held → Released, the ordinary life.
func TestLifeOfATenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		wantState(t, r.tenure, ownership.Acquiring)
		wantErr(t, r.tenure.Ensure(0), ownership.ErrNotHeld)
		if got := r.prove(); got != ownership.Held {
			t.Fatalf("a proof in time made it %v", got)
		}
		if r.tenure.Resource() != "shard-7" || r.tenure.Token() != 7 || r.tenure.Owner().String() != "worker#01" {
			t.Fatalf("it is %s, token %v, of %v", r.tenure.Resource(), r.tenure.Token(), r.tenure.Owner())
		}
		time.Sleep(3 * time.Second)
		if err := r.tenure.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantState(t, r.tenure, ownership.Released)
		r.log.expect(t, "held", "free", "released")
		for i, want := range []ownership.Transition{
			{From: ownership.Acquiring, To: ownership.Held, Remaining: safeFor},
			{From: ownership.Held, To: ownership.Released, Cause: ownership.ErrReleased, Remaining: safeFor - 3*time.Second, InState: 3 * time.Second},
		} {
			want.Tenure = r.tenure
			if got := r.log.transitions()[i]; got != want {
				t.Errorf("transition %d is %+v, want %+v", i, got, want)
			}
		}
	})
}

// DESIGN 2.1 and 8.5: without a proof, work is told at the safe deadline, and the
// end at the hard one, by the tenure's own timer: nobody asks and nothing answers.
func TestDeadlinesFireByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held()
		work, start := r.tenure.Context(), time.Now()
		<-work.Done()
		if got := time.Since(start); got != safeFor {
			t.Fatalf("the work was told after %v, want %v", got, safeFor)
		}
		wantErr(t, context.Cause(work), ownership.ErrNotHeld, ownership.ErrSuspect, ownership.ErrExpired)
		select {
		case <-r.tenure.Done():
			t.Fatal("Done is closed while the tenure can be proven again")
		default:
		}
		<-r.tenure.Done()
		if got := time.Since(start); got != endsIn {
			t.Fatalf("lost after %v, want %v", got, endsIn)
		}
		wantErr(t, r.tenure.Err(), ownership.ErrNotHeld, ownership.ErrLost, ownership.ErrExpired)
		synctest.Wait() // the timer's goroutine tells the hooks last
		r.log.expect(t, "held", "suspect", "free", "lost")
	})
}

// The runtime's timers and the tenure's clock are two clocks. A timer that fires
// early by the tenure's looks again when it is time; short leases are no worse
// off than long ones.
func TestTimersThatFireEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		now, start := r.Now(), time.Now()
		r.Confirm(now.Add(10*time.Millisecond), now.Add(20*time.Millisecond))
		work := r.tenure.Context()
		r.clock.Suspend(-3 * time.Millisecond) // it ran slower
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		r.log.expect(t, "held")
		<-work.Done()
		if got := time.Since(start); got != 13*time.Millisecond {
			t.Fatalf("the work was told after %v, want 13ms", got)
		}
		<-r.tenure.Done()
		if got := time.Since(start); got != 23*time.Millisecond {
			t.Fatalf("lost after %v, want 23ms", got)
		}
	})
}

// DESIGN 2.5: what a renewal moves is moved, and the timer follows.
func TestRenewalsKeepItHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held()
		work, start := r.tenure.Context(), time.Now()
		for range 100 {
			time.Sleep(safeFor - time.Nanosecond)
			if got := r.prove(); got != ownership.Held {
				t.Fatalf("renewed in time, and it is %v", got)
			}
		}
		if work.Err() != nil || r.tenure.Context() != work {
			t.Fatal("renewals have ended the period of Held")
		}
		<-work.Done()
		if got, want := time.Since(start), 100*(safeFor-time.Nanosecond)+safeFor; got != want {
			t.Fatalf("the last deadline fired after %v, want %v", got, want)
		}
	})
}

// DESIGN 2.4: a process that wakes up late reads "not held" from its first call,
// whichever that is, although no timer of the runtime has fired.
func TestEveryCallReadsTheClockFirst(t *testing.T) {
	state := func(t *testing.T, r *rig, want ownership.State) { wantState(t, r.tenure, want) }
	calls := map[string]func(*testing.T, *rig, context.Context, ownership.State){
		"State": func(t *testing.T, r *rig, _ context.Context, want ownership.State) { state(t, r, want) },
		"Ensure": func(t *testing.T, r *rig, _ context.Context, want ownership.State) {
			var e *ownership.NotHeldError
			if err := r.tenure.Ensure(0); !errors.As(err, &e) || e.State != want || e.Remaining != 0 {
				t.Fatalf("Ensure: %v", err)
			}
		},
		"Context": func(t *testing.T, r *rig, _ context.Context, want ownership.State) {
			var e *ownership.NotHeldError
			if err := context.Cause(r.tenure.Context()); !errors.As(err, &e) || e.State != want {
				t.Fatalf("cause of Context: %v", err)
			}
		},
		"Context.Err": func(t *testing.T, r *rig, work context.Context, _ ownership.State) {
			if work.Err() == nil {
				t.Fatal("the context of the period is alive")
			}
		},
		"Deadline": func(t *testing.T, r *rig, _ context.Context, _ ownership.State) {
			if time.Until(r.tenure.Deadline()) > 0 {
				t.Fatal("the deadline lies ahead")
			}
		},
		"Err": func(t *testing.T, r *rig, _ context.Context, want ownership.State) {
			if err := r.tenure.Err(); (err != nil) != want.Terminal() {
				t.Fatalf("Err: %v", err)
			}
		},
		"Progress": func(t *testing.T, r *rig, _ context.Context, want ownership.State) { r.tenure.Progress() },
		"Release":  func(t *testing.T, r *rig, _ context.Context, want ownership.State) { _ = r.tenure.Release(t.Context()) },
		"Confirm": func(t *testing.T, r *rig, _ context.Context, want ownership.State) {
			if got := r.Confirm(r.Now().Add(-1), r.Now()); got != want {
				t.Fatalf("Confirm with a proof that has run out: %v", got)
			}
		},
		"Doubt": func(t *testing.T, r *rig, _ context.Context, _ ownership.State) { r.Doubt(errNetwork) },
	}
	for name, call := range calls {
		for _, c := range []struct {
			asleep time.Duration
			want   ownership.State
			told   []string
		}{
			{safeFor, ownership.Suspect, []string{"held", "suspect"}},
			{endsIn, ownership.Lost, []string{"held", "free", "lost"}},
		} {
			t.Run(name+" "+c.want.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := held()
					work := r.tenure.Context()
					r.clock.Suspend(c.asleep)
					synctest.Wait()
					r.log.expect(t, "held") // no timer has noticed
					call(t, r, work, c.want)
					if name == "Release" && c.want == ownership.Suspect {
						c.told = []string{"held", "free", "suspect", "lost"}
						c.want = ownership.Lost
					}
					r.log.expect(t, c.told...)
					select {
					case <-work.Done():
					default:
						t.Fatal("the call has not cancelled the work")
					}
					wantState(t, r.tenure, c.want)
					r.Abandon(errNetwork)
				})
			})
		}
	}
}

// DESIGN 2.1: a proof that arrives after the safe deadline, before anybody
// noticed that it has passed, does not paper over the gap: the old period is
// over, and a new one begins.
func TestProofAfterAnUnnoticedGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held()
		before := r.tenure.Context()
		r.clock.Suspend(safeFor)
		if got := r.prove(); got != ownership.Held {
			t.Fatalf("proven again, and it is %v", got)
		}
		wantErr(t, context.Cause(before), ownership.ErrNotHeld, ownership.ErrSuspect, ownership.ErrExpired)
		if after := r.tenure.Context(); after == before || after.Err() != nil {
			t.Fatal("the proof has not begun a new period")
		}
		r.log.expect(t, "held", "suspect", "held")
		r.Abandon(errNetwork)
	})
}

// DESIGN 2.3: doubt stops work at once; a proof, whenever it comes, starts it anew
// under the same token.
func TestDoubtThenProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held()
		first := r.tenure.Context()
		time.Sleep(time.Second)
		r.Doubt(errNetwork)
		wantErr(t, context.Cause(first), ownership.ErrNotHeld, ownership.ErrSuspect, errNetwork)
		wantErr(t, r.tenure.Ensure(0), ownership.ErrNotHeld, ownership.ErrSuspect, errNetwork)
		if r.tenure.Err() != nil {
			t.Fatalf("Err while in doubt: %v", r.tenure.Err())
		}
		inDoubt := r.tenure.Context()
		wantErr(t, context.Cause(inDoubt), ownership.ErrNotHeld, ownership.ErrSuspect, errNetwork)

		time.Sleep(20 * time.Second) // far beyond the safe deadline
		r.Doubt(ownership.ErrRefused)
		wantErr(t, r.tenure.Ensure(0), ownership.ErrNotHeld, ownership.ErrSuspect, errNetwork) // the first reason stays
		r.prove()
		second := r.tenure.Context()
		if second.Err() != nil || first.Err() == nil || inDoubt.Err() == nil {
			t.Fatal("the new period's context must live, the old ones must not")
		}
		if r.tenure.Token() != 7 || r.tenure.Ensure(safeFor) != nil {
			t.Fatal("proven again, it must be held under the same token")
		}
		r.log.expect(t, "held", "suspect", "held")
		r.Abandon(errNetwork)
	})
}

// DESIGN 2.3: doubt that nothing resolves ends in Lost at the hard deadline plus
// the grace, and the reason of the doubt is not forgotten.
func TestDoubtThenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held()
		start := time.Now()
		r.Doubt(errNetwork)
		<-r.tenure.Done()
		if got := time.Since(start); got != endsIn {
			t.Fatalf("lost after %v, want %v", got, endsIn)
		}
		wantErr(t, r.tenure.Err(), ownership.ErrNotHeld, ownership.ErrLost, ownership.ErrExpired, errNetwork)
	})
}

// DESIGN 2.5: deadlines never move backwards, whatever order proofs come in.
func TestDeadlinesNeverMoveBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held()
		start, want := r.Now(), r.tenure.Deadline()
		r.Confirm(start.Add(time.Second), start.Add(2*time.Second)) // an older one
		if got := r.tenure.Deadline(); !got.Equal(want) {
			t.Fatalf("the safe deadline moved by %v", got.Sub(want))
		}
		if err := r.tenure.Ensure(safeFor); err != nil {
			t.Fatal(err)
		}
		<-r.tenure.Done()
		if got := time.Since(start); got != endsIn {
			t.Fatalf("the end moved to %v, want %v", got, endsIn)
		}
	})
}

// DESIGN 2, Time: an answer whose own deadline has passed is no licence to work,
// and neither is an earlier one that it was no worse than.
func TestLateProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		sent := r.Now()
		time.Sleep(safeFor)
		if got := r.Confirm(sent.Add(safeFor), sent.Add(endsIn)); got != ownership.Acquiring {
			t.Fatalf("a claim answered at its safe deadline is %v", got)
		}
		wantErr(t, r.tenure.Ensure(0), ownership.ErrNotHeld)
		if got := r.prove(); got != ownership.Held {
			t.Fatalf("proven in time after that, and it is %v", got)
		}
		r.Doubt(errNetwork)
		if got := r.Confirm(r.Now().Add(-1), r.Now().Add(endsIn)); got != ownership.Suspect {
			t.Fatalf("in doubt, and with a proof that has run out, it is %v", got)
		}
		r.Abandon(errNetwork)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		sent := r.Now()
		time.Sleep(endsIn)
		if got := r.Confirm(sent.Add(safeFor), sent.Add(endsIn)); got != ownership.Lost {
			t.Fatalf("a claim answered after its end is %v", got)
		}
		wantErr(t, r.tenure.Err(), ownership.ErrNotHeld, ownership.ErrLost, ownership.ErrExpired)
	})
}

// A driver that gives an end before the safe deadline has made a mistake; the
// tenure must not be held and over at once.
func TestEndIsNeverBeforeSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		start := r.Now()
		r.Confirm(start.Add(safeFor), start.Add(time.Second))
		time.Sleep(safeFor - 1)
		wantState(t, r.tenure, ownership.Held)
		<-r.tenure.Done()
		if got := r.Now().Sub(start); got != safeFor {
			t.Fatalf("lost after %v, want %v", got, safeFor)
		}
	})
}

// DESIGN 2.2 and 8.6: nothing follows Lost or Released, and the cause stays.
func TestTerminalStates(t *testing.T) {
	ends := map[string]struct {
		end  func(*rig)
		want []error
	}{
		"lost":     {func(r *rig) { r.Lose(ownership.ErrRefused) }, []error{ownership.ErrNotHeld, ownership.ErrLost, ownership.ErrRefused}},
		"released": {func(r *rig) { r.End(ownership.ErrClosed) }, []error{ownership.ErrNotHeld, ownership.ErrReleased, ownership.ErrClosed}},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := held()
				work := r.tenure.Context()
				c.end(r)
				<-r.tenure.Done()
				for _, straggler := range []func(){
					func() { r.prove() }, func() { r.Doubt(errNetwork) }, func() { r.Lose(ownership.ErrRevoked) },
					func() { r.End(ownership.ErrReleased) }, func() { _ = r.tenure.Release(t.Context()) },
					func() { r.tenure.Progress() }, func() { r.Abandon(errNetwork) }, func() { time.Sleep(time.Hour) },
				} {
					straggler()
					if got := r.tenure.State().String(); got != name {
						t.Fatalf("it became %s", got)
					}
					wantErr(t, r.tenure.Err(), c.want...)
					wantErr(t, context.Cause(work), c.want...)
					wantErr(t, context.Cause(r.tenure.Context()), c.want...)
				}
				r.log.expect(t, "held", name, "free")
			})
		})
	}
}

// Order within one transition: the state is stored, the work cancelled, Done
// closed; whoever sees a later one sees the earlier ones too.
func TestDoneComesAfterTheCancellation(t *testing.T) {
	for range 200 { // real goroutines: the race detector and luck do the rest
		r := held()
		work := r.tenure.Context()
		go r.Lose(ownership.ErrRefused)
		<-r.tenure.Done()
		if work.Err() == nil {
			t.Fatal("Done is closed and the work is not cancelled")
		}
		wantErr(t, r.tenure.Err(), ownership.ErrNotHeld, ownership.ErrLost, ownership.ErrRefused)
		r.Abandon(errNetwork)
	}
}

func TestEnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held()
		time.Sleep(4 * time.Second)
		for _, c := range []struct {
			need time.Duration
			ok   bool
		}{{-time.Hour, true}, {0, true}, {6 * time.Second, true}, {6*time.Second + 1, false}, {1 << 62, false}} {
			err := r.tenure.Ensure(c.need)
			if (err == nil) != c.ok {
				t.Fatalf("with 6s left, Ensure(%v): %v", c.need, err)
			}
			if err != nil {
				wantErr(t, err, ownership.ErrNotHeld)
				if e := err.(*ownership.NotHeldError); e.Remaining != 6*time.Second || e.State != ownership.Held {
					t.Fatalf("%+v", e)
				}
			}
		}
		if got := time.Until(r.tenure.Deadline()); got != 6*time.Second {
			t.Fatalf("Deadline is %v away, want 6s", got)
		}
		r.Abandon(errNetwork)
	})
}

// DESIGN 2, Zombies: stuck work does not stay in office although its session
// renews. Only that tenure ends, at its frozen deadline its grant goes.
func TestWatchdog(t *testing.T) {
	stall := func(cfg *ownership.DriverConfig) { cfg.Stall = 4 * time.Second }
	synctest.Test(t, func(t *testing.T) {
		stuck, alive := held(stall), held(stall)
		work, start := stuck.tenure.Context(), time.Now()
		for range 5 { // renewals go on for both, at 1s, 2s, …
			time.Sleep(time.Second)
			stuck.prove()
			alive.prove()
			alive.tenure.Progress()
			if time.Since(start) <= 2*time.Second {
				stuck.tenure.Progress() // its last sign of life is at 2s
			}
		}
		wantState(t, stuck.tenure, ownership.Held)
		<-work.Done()
		if got := time.Since(start); got != 6*time.Second {
			t.Fatalf("the watchdog fired after %v, want 6s", got)
		}
		wantErr(t, context.Cause(work), ownership.ErrNotHeld, ownership.ErrLost, ownership.ErrStalled)
		alive.tenure.Progress()
		alive.prove()
		wantState(t, alive.tenure, ownership.Held)

		// The deadline froze at 5s + 10s: no later proof moves it, and the grant
		// is not given away before it, for the stuck work was told so.
		stuck.prove()
		alive.Abandon(errNetwork)
		<-stuck.Freed()
		if got := time.Since(start); got != 5*time.Second+safeFor {
			t.Fatalf("the grant was given back after %v, want 15s", got)
		}
		stuck.log.expect(t, "held", "lost", "free")
	})
	synctest.Test(t, func(t *testing.T) { // every period starts with a fresh watchdog
		r := held(stall)
		r.Doubt(errNetwork)
		time.Sleep(8 * time.Second) // in doubt nobody works, so nothing stalls
		wantState(t, r.tenure, ownership.Suspect)
		r.prove()
		start := time.Now()
		<-r.tenure.Done()
		if got := time.Since(start); got != 4*time.Second {
			t.Fatalf("the watchdog fired after %v, want 4s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) { // on waking, even Progress comes too late
		r := held(stall)
		r.clock.Suspend(5 * time.Second)
		r.tenure.Progress()
		wantErr(t, r.tenure.Err(), ownership.ErrNotHeld, ownership.ErrLost, ownership.ErrStalled)
	})
}

func TestNotHeldErrorText(t *testing.T) {
	for _, c := range []struct {
		err  ownership.NotHeldError
		want string
	}{
		{ownership.NotHeldError{State: ownership.Acquiring}, "r (token 3) is acquiring: wait until it is proven"},
		{ownership.NotHeldError{State: ownership.Held, Remaining: time.Second},
			"r (token 3) is held for another 1s only, less than was asked for; try again after the next renewal"},
		{ownership.NotHeldError{State: ownership.Suspect, Cause: ownership.ErrExpired},
			"r (token 3) is suspect: stop work until it is proven again: the lease passed its deadline without proof"},
		{ownership.NotHeldError{State: ownership.Lost, Cause: ownership.ErrRevoked},
			"r (token 3) is lost: stop, and acquire it again for a new token: the tenure was revoked by an operator"},
		{ownership.NotHeldError{State: ownership.Released},
			"r (token 3) is released: stop, and acquire it again for a new token"},
	} {
		c.err.Resource, c.err.Token = "r", 3
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
