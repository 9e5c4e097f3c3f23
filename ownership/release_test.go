package ownership_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// ended is a context that has ended already.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// DESIGN 2.6: not held → cancelled → drained → given back, in this order, with
// Close or with Release. The bare Acquire: its Release says that work has ended.
func TestOrderOfAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held()
		work := r.tenure.Context()
		go func() { // the user's work
			<-work.Done()
			if r.tenure.State() == ownership.Held {
				t.Error("cancelled while it is held")
			}
			r.log.add("cancelled")
			time.Sleep(3 * time.Second)
			r.log.add("drained")
			if err := r.tenure.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		start := time.Now()
		r.End(ownership.ErrClosed)
		<-r.Freed()
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("the grant went after %v, want 3s", got)
		}
		r.log.expect(t, "held", "released", "cancelled", "drained", "free")
	})
}

// DESIGN 2.6 and 8.6: however a tenure ends, the grant is given back exactly once,
// when its work has ended or when the deadline that it was told has passed, and
// never before.
func TestFreeIsCalledOnce(t *testing.T) {
	const second = time.Second
	release := func(r *rig) { _ = r.tenure.Release(ended()) }
	for _, c := range []struct {
		name string
		end  func(*rig)
		work time.Duration // until the work ends with Release; 0: never
		want time.Duration // from the end
	}{
		{"released", release, 0, 0},
		{"released twice", func(r *rig) { release(r); release(r) }, 0, 0},
		{"refused, work ends", func(r *rig) { r.Lose(ownership.ErrRefused) }, 3 * second, 3 * second},
		{"refused, work ends beyond its deadline", func(r *rig) { r.Lose(ownership.ErrRefused) }, 11 * second, safeFor},
		{"refused, work never ends", func(r *rig) { r.Lose(ownership.ErrRefused) }, 0, safeFor},
		{"closed, work ends", func(r *rig) { r.End(ownership.ErrClosed) }, 3 * second, 3 * second},
		{"closed, work never ends", func(r *rig) { r.End(ownership.ErrClosed) }, 0, safeFor},
		{"closed, then lost", func(r *rig) { r.End(ownership.ErrClosed); r.Lose(ownership.ErrRefused) }, 0, safeFor},
		{"in doubt, then released", func(r *rig) { r.Doubt(errNetwork); release(r) }, 0, 0},
		{"in doubt, then lost", func(r *rig) { r.Doubt(errNetwork); r.Lose(ownership.ErrRefused) }, 0, safeFor},
		{"in doubt to the end", func(r *rig) { r.Doubt(errNetwork) }, 0, endsIn},
		{"in doubt to the end, work ends long after", func(r *rig) { r.Doubt(errNetwork) }, 30 * second, endsIn},
		{"slept through it all", func(r *rig) { r.clock.Suspend(time.Hour); r.tenure.State() }, 0, 0},
		{"lost, work ends in a suspend", func(r *rig) { r.Lose(ownership.ErrRefused); r.clock.Suspend(time.Hour); release(r) }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := held()
				r.tenure.Context()
				start := time.Now()
				c.end(r)
				if c.work > 0 {
					time.AfterFunc(c.work, func() { release(r) })
				}
				<-r.Freed()
				if got := time.Since(start); got != c.want {
					t.Errorf("given back after %v, want %v", got, c.want)
				}
				time.Sleep(time.Hour)
				release(r)
				if r.freed != 1 {
					t.Errorf("Free was called %d times", r.freed)
				}
			})
		})
	}
}

// A claim that was never proven has told nobody a deadline, so its grant is
// removed at once.
func TestFreeOfAnUnprovenClaim(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"refused":  func(r *rig) { r.Lose(ownership.ErrRefused) },
		"released": func(r *rig) { _ = r.tenure.Release(ended()) },
		"closed":   func(r *rig) { r.End(ownership.ErrClosed) },
	} {
		r := newRig()
		end(r)
		if r.freed != 1 { // with no query in between, and no timer to come
			t.Errorf("%s: Free was called %d times", name, r.freed)
		}
		wantState(t, r.tenure, ownership.Lost)
		if got := r.log.transitions()[0]; got.Remaining != 0 {
			t.Errorf("%s: a deadline that never was lies %v ahead", name, got.Remaining)
		}
	}
}

// Abandon never gives back: the grant is left to the end of its session.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, before := range map[string]func(*rig){
			"acquiring": func(r *rig) {},
			"held":      func(r *rig) { r.prove() },
			"released":  func(r *rig) { r.prove(); r.End(ownership.ErrClosed) },
			"overdue":   func(r *rig) { r.prove(); r.clock.Suspend(time.Hour) },
		} {
			r := newRig()
			before(r)
			r.Abandon(errNetwork)
			r.Abandon(nil)
			<-r.Freed()
			if !r.tenure.State().Terminal() {
				t.Errorf("%s: it is %v", name, r.tenure.State())
			}
			if err := r.tenure.Release(t.Context()); !errors.Is(err, errNetwork) {
				t.Errorf("%s: Release: %v", name, err)
			}
			time.Sleep(time.Hour)
			if r.freed != 0 {
				t.Errorf("%s: Free was called", name)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) { // too late: it was called already
		var r *rig
		r = held(holdsFree(&r))
		_ = r.tenure.Release(ended())
		r.Abandon(errNetwork)
		r.done(ownership.ErrRefused)
		wantErr(t, r.tenure.Release(t.Context()), ownership.ErrRefused)
	})
}

// Release reports what the authority said, the first time it said anything, and
// to every caller; Free and its answer may come from anywhere.
func TestReleaseReportsTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = held(holdsFree(&r))
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				err := r.tenure.Release(t.Context())
				wantErr(t, err, ownership.ErrRefused)
				if want := "releasing shard-7 (token 7): the authority refused the lease"; err.Error() != want {
					t.Errorf("got %q, want %q", err, want)
				}
			})
		}
		synctest.Wait()
		if r.freed != 1 {
			t.Fatalf("Free was called %d times", r.freed)
		}
		r.done(ownership.ErrRefused)
		r.done(nil)
		callers.Wait()
		wantErr(t, r.tenure.Release(ended()), ownership.ErrRefused)
	})
}

// DESIGN 7: a release whose outcome is not known is neither failed nor done.
func TestReleaseUnderAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held() // answers at once: no need to wait
		if err := r.tenure.Release(ended()); err != nil {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = held(holdsFree(&r))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errNetwork)
		defer cancel()
		wantErr(t, r.tenure.Release(ctx), ownership.ErrUnknown, errNetwork)
		wantErr(t, r.tenure.Release(ended()), ownership.ErrUnknown, context.Canceled)
		wantState(t, r.tenure, ownership.Released)
		r.done(nil)
		if err := r.tenure.Release(ended()); err != nil {
			t.Fatalf("it is resolved, and Release says %v", err)
		}
	})
}

// A tenure in doubt may be somebody else's already: to release it ends it as Lost,
// while its error tells both, and why there was doubt.
func TestReleaseInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := held()
		r.Doubt(errNetwork)
		if err := r.tenure.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, r.tenure.Err(), ownership.ErrNotHeld, ownership.ErrLost, ownership.ErrReleased, errNetwork)
		r.log.expect(t, "held", "suspect", "free", "lost")
	})
}

// Free is the adapter's code, and may look at the tenure; a tenure without a Free
// has nothing to give back.
func TestFreeRunsOutsideTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = held(func(cfg *ownership.DriverConfig) {
			cfg.Free = func(done func(error)) {
				wantState(t, r.tenure, ownership.Released)
				_ = r.tenure.Release(ended())
				r.Lose(ownership.ErrRefused)
				done(nil)
			}
		})
		if err := r.tenure.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		r = held(func(cfg *ownership.DriverConfig) { cfg.Free = nil })
		if err := r.tenure.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
