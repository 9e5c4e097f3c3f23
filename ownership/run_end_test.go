package ownership_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// Run's fourth rule: a release, by the body or by others, is an end of the work,
// so that "defer t.Release(ctx)" in a body does not make it run for ever; and
// inside the body it does not wait for itself.
func TestRunReleasedByItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		err := ownership.Run(t.Context(), a, "shard-7", func(ctx context.Context, tenure *ownership.Tenure) error {
			err := tenure.Release(ctx)
			wantErr(t, err, ownership.ErrDraining)
			wantErr(t, context.Cause(ctx), ownership.ErrNotHeld, ownership.ErrReleased)
			if a.driver("shard-7") == nil {
				t.Error("the grant was given back while its body is at work")
			}
			// An inner Run must not hide the outer body from Release.
			inner := ownership.Run(context.WithoutCancel(ctx), a, "shard-8", func(ctx context.Context, _ *ownership.Tenure) error {
				wantErr(t, tenure.Release(ctx), ownership.ErrDraining)
				return nil
			})
			return errors.Join(inner, errBody)
		})
		if !errors.Is(err, errBody) || a.calls != 2 {
			t.Fatalf("Run: %v, after %d claims", err, a.calls)
		}
		vacant(t, a)
	})
	synctest.Test(t, func(t *testing.T) { // by somebody else, who waits for the body
		a := newAuthority()
		done := run(t.Context(), a, func(ctx context.Context, tenure *ownership.Tenure) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second)
			return errBody
		})
		synctest.Wait()
		tenure := a.driver("shard-7").Tenure()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, tenure.Release(ctx), ownership.ErrDraining, context.DeadlineExceeded)
		if err := tenure.Release(t.Context()); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("Release returned after %v: %v", time.Since(start), err)
		}
		if err := <-done; err != errBody {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // of a tenure already lost it ends nothing
		a := newAuthority()
		done := run(t.Context(), a, func(ctx context.Context, tenure *ownership.Tenure) error {
			defer tenure.Release(ctx)
			if tenure.Token() == 1 {
				<-ctx.Done()
				return nil
			}
			return errBody
		})
		synctest.Wait()
		a.driver("shard-7").Lose(ownership.ErrRefused)
		if err := <-done; err != errBody {
			t.Fatal(err)
		}
	})
}

// Run's fifth rule: the end of ctx, with its cause, after the body has returned
// and the tenure was given back.
func TestRunEndsWithItsContext(t *testing.T) {
	for _, release := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := newAuthority()
			ctx, cancel := context.WithCancelCause(t.Context())
			done := run(ctx, a, func(ctx context.Context, tenure *ownership.Tenure) error {
				<-ctx.Done()
				if tenure.State() != ownership.Held || context.Cause(ctx) != errNetwork {
					t.Errorf("%v, cause %v: the tenure ends after its work only", tenure.State(), context.Cause(ctx))
				}
				time.Sleep(time.Second)
				if release {
					_ = tenure.Release(ctx)
				}
				return errBody
			})
			synctest.Wait()
			cancel(errNetwork)
			done.running(t)
			if err := <-done; err != errNetwork {
				t.Fatalf("Run: %v", err)
			}
			vacant(t, a)
		})
	}
}

// Run waits until the grant is known to be gone, though not for ever, and not
// under a context that has ended.
func TestRunWaitsForTheRelease(t *testing.T) {
	for _, answer := range []time.Duration{3 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var r *rig
			ctx, cancel := context.WithCancel(t.Context())
			var leaked context.Context
			own := &onlyOnce{&r, []func(*ownership.DriverConfig){holdsFree(&r)}}
			done := run(ctx, own, func(ctx context.Context, _ *ownership.Tenure) error {
				leaked = ctx
				<-ctx.Done()
				return nil
			})
			synctest.Wait()
			start := time.Now()
			time.AfterFunc(answer, func() { r.done(nil) })
			cancel()
			synctest.Wait()
			// The body has ended: its context no longer means "inside".
			bounded, stop := context.WithTimeout(context.WithoutCancel(leaked), time.Second)
			defer stop()
			wantErr(t, r.tenure.Release(bounded), ownership.ErrUnknown, context.DeadlineExceeded)
			if err := <-done; err != context.Canceled || time.Since(start) != min(answer, 10*time.Second) {
				t.Errorf("Run returned after %v: %v", time.Since(start), err)
			}
			<-r.Freed()
		})
	}
}

// Wherever Run waits, the end of its context ends it.
func TestRunStopsWaiting(t *testing.T) {
	never := func(context.Context, *ownership.Tenure) error { panic("a body ran") }
	for name, before := range map[string]func(a *authority) func(){
		"for the resource": func(a *authority) func() {
			t, _ := a.TryAcquire(context.Background(), "shard-7")
			return func() { _ = t.Release(ended()) }
		},
		"before the next try": func(a *authority) func() {
			for range 1000 {
				a.fail = append(a.fail, errNetwork)
			}
			return func() {}
		},
		"for its turn": func(a *authority) func() {
			ctx, cancel := context.WithCancel(context.Background())
			done := run(ctx, a, func(ctx context.Context, _ *ownership.Tenure) error { <-ctx.Done(); return nil })
			synctest.Wait()
			return func() { cancel(); <-done }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAuthority()
				after := before(a)
				ctx, cancel := context.WithTimeoutCause(t.Context(), 7*time.Second, errBody)
				defer cancel()
				start := time.Now()
				if err := ownership.Run(ctx, a, "shard-7", never); err != errBody || time.Since(start) != 7*time.Second {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				after()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // in doubt, between two bodies
		a := newAuthority()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 7*time.Second, errBody)
		defer cancel()
		done := run(ctx, a, func(ctx context.Context, _ *ownership.Tenure) error { <-ctx.Done(); return nil })
		synctest.Wait()
		a.driver("shard-7").Doubt(errNetwork)
		start := time.Now()
		if err := <-done; err != errBody || time.Since(start) != 7*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		vacant(t, a)
	})
}

// controller-runtime#2719: an ended context, or a closed Ownership, never runs
// the body, even if a tenure was acquired.
func TestRunNeverStartsABodyAfterTheEnd(t *testing.T) {
	never := func(context.Context, *ownership.Tenure) error { panic("a body ran") }
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		if err := ownership.Run(ended(), a, "shard-7", never); err != context.Canceled {
			t.Errorf("Run: %v", err)
		}
		vacant(t, a)
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, ownership.Run(t.Context(), a, "shard-7", never), ownership.ErrClosed)
	})
	synctest.Test(t, func(t *testing.T) { // closed between the grant and the body
		var a *authority
		a = newAuthority(hookFunc(func(e ownership.Transition) {
			if e.To == ownership.Held {
				go a.Close(context.Background())
			}
		}))
		blocked := closesFirst{a}
		wantErr(t, ownership.Run(t.Context(), blocked, "shard-7", never), ownership.ErrNotHeld, ownership.ErrReleased, ownership.ErrClosed)
		vacant(t, a)
	})
}

// closesFirst hands a tenure out only after the Close that it set off has ended
// it.
type closesFirst struct{ *authority }

func (c closesFirst) Acquire(ctx context.Context, resource string) (*ownership.Tenure, error) {
	t, err := c.authority.Acquire(ctx, resource)
	if err == nil {
		<-t.Done()
	}
	return t, err
}

// Run's fifth rule: Close in the middle cancels the body, waits for it, and ends
// Run with ErrClosed.
func TestRunEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		bodies := 0
		done := run(t.Context(), a, func(ctx context.Context, tenure *ownership.Tenure) error {
			bodies++
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), ownership.ErrNotHeld, ownership.ErrReleased, ownership.ErrClosed)
			time.Sleep(3 * time.Second)
			return errBody
		})
		synctest.Wait()
		start := time.Now()
		if err := a.Close(t.Context()); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("Close returned after %v: %v", time.Since(start), err)
		}
		wantErr(t, <-done, ownership.ErrNotHeld, ownership.ErrReleased, ownership.ErrClosed)
		if bodies != 1 {
			t.Errorf("%d bodies ran", bodies)
		}
	})
}

// Run's sixth rule: two Runs for one resource take turns, even when the first
// body ignores that its tenure was lost and somebody else could be let in.
func TestRunsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		var order journal
		awake := make(chan struct{})
		first := run(t.Context(), a, func(ctx context.Context, tenure *ownership.Tenure) error {
			order.add("first starts")
			if tenure.Token() == 1 {
				<-awake // deaf to its context
			}
			order.add("first ends")
			return nil
		})
		synctest.Wait()
		second := run(t.Context(), a, func(ctx context.Context, tenure *ownership.Tenure) error {
			order.add("second runs")
			return nil
		})
		// Another Ownership, or another resource, need not wait.
		if err := ownership.Run(t.Context(), newAuthority(), "shard-7", func(context.Context, *ownership.Tenure) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := ownership.Run(t.Context(), a, "shard-8", func(context.Context, *ownership.Tenure) error { return nil }); err != nil {
			t.Fatal(err)
		}
		a.driver("shard-7").Lose(ownership.ErrRefused)
		time.Sleep(time.Hour) // the grant is gone long since
		vacant(t, a)
		second.running(t)
		order.expect(t, "first starts")
		close(awake)
		if err := errors.Join(<-first, <-second); err != nil {
			t.Fatal(err)
		}
		order.expect(t, "first starts", "first ends", "first starts", "first ends", "second runs")
	})
}

// A panic of the body, or the end of its goroutine, passes through Run; the
// tenure is given back and the turn passed on.
func TestRunBodyThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		func() {
			defer func() {
				if got := recover(); got != "body" {
					t.Errorf("recovered %v", got)
				}
				vacant(t, a)
			}()
			_ = ownership.Run(t.Context(), a, "shard-7", func(ctx context.Context, tenure *ownership.Tenure) error { panic("body") })
		}()
		if err := ownership.Run(t.Context(), a, "shard-7", func(context.Context, *ownership.Tenure) error { return errBody }); err != errBody {
			t.Fatal(err)
		}
	})
}

// Trouble of an Ownership is tried again, at a pace that grows; a tenure that is
// lost as soon as it is granted is trouble too.
func TestRunBacksOff(t *testing.T) {
	const tries = 40
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		for range tries {
			a.fail = append(a.fail, errNetwork)
		}
		start := time.Now()
		if err := ownership.Run(t.Context(), a, "shard-7", func(context.Context, *ownership.Tenure) error { return nil }); err != nil {
			t.Fatal(err)
		}
		// Full jitter: half of 5 s a try on average, once it has grown.
		if got := time.Since(start); got < 30*time.Second || got > tries*(5*time.Second+time.Millisecond) {
			t.Errorf("%d tries took %v", tries, got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		start := time.Now()
		err := ownership.Run(t.Context(), a, "shard-7", func(ctx context.Context, tenure *ownership.Tenure) error {
			if tenure.Token() == tries {
				return errBody
			}
			a.driver("shard-7").Lose(ownership.ErrRefused)
			return nil
		})
		if got := time.Since(start); err != errBody || got < 30*time.Second {
			t.Errorf("%d tenures lost at once took %v: %v", tries, got, err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // one that lasted is acquired again soon
		a := newAuthority()
		for range 20 {
			a.fail = append(a.fail, errNetwork)
		}
		var lost time.Time
		err := ownership.Run(t.Context(), a, "shard-7", func(ctx context.Context, tenure *ownership.Tenure) error {
			if tenure.Token() == 2 {
				if got := time.Since(lost); got > 101*time.Millisecond {
					t.Errorf("acquired again after %v", got)
				}
				return errBody
			}
			<-ctx.Done()
			<-tenure.Done()
			lost = time.Now()
			return nil
		})
		if err != errBody {
			t.Fatal(err)
		}
	})
}

// DESIGN 7: all faults at once, before anything is done.
func TestRunBadInput(t *testing.T) {
	err := ownership.Run(t.Context(), nil, "", nil)
	wantErr(t, err, ownership.ErrInvalid)
	const want = `own is nil: it must be an Ownership; open one with an adapter
body is nil: it must be a function; pass the work to do while the resource is held
resource is "": it must not be empty; give it a name`
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	a := newAuthority()
	a.fail = []error{ownership.Invalid("resource", "x", "must be one of the declared set", "")}
	err = ownership.Run(t.Context(), a, "shard-7", func(context.Context, *ownership.Tenure) error { return nil })
	if !errors.Is(err, ownership.ErrInvalid) || !strings.Contains(err.Error(), "declared set") || a.calls != 1 {
		t.Errorf("after %d claims: %v", a.calls, err)
	}
}

// uncomparable has no identity; Run must not panic over that.
type uncomparable struct {
	*authority
	_ []int
}

func TestRunOnAnUncomparableOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := ownership.Run(t.Context(), uncomparable{authority: newAuthority()}, "shard-7",
			func(context.Context, *ownership.Tenure) error { return errBody })
		if err != errBody {
			t.Fatal(err)
		}
		wrapped := struct{ ownership.Ownership }{uncomparable{authority: newAuthority()}}
		if err = ownership.Run(t.Context(), wrapped, "shard-7", func(context.Context, *ownership.Tenure) error { return errBody }); err != errBody {
			t.Fatal(err)
		}
	})
}
