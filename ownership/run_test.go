package ownership_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

type ctxKey struct{}

var errBody = errors.New("the body's own end")

// result is a call of Run in a goroutine.
type result chan error

func run(ctx context.Context, own ownership.Ownership, body func(context.Context, *ownership.Tenure) error) result {
	done := make(result, 1)
	go func() { done <- ownership.Run(ctx, own, "shard-7", body) }()
	return done
}

// running fails the test if Run has returned, once all is quiet.
func (r result) running(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-r:
		t.Fatalf("Run returned: %v", err)
	default:
	}
}

func vacant(t *testing.T, a *authority) {
	t.Helper()
	if h, _ := a.Holder(t.Context(), "shard-7"); !h.Vacant() {
		t.Fatalf("not given back: %v", h)
	}
}

// Run's first rule and its fourth: the body runs while held, with ctx's values,
// and its own end is Run's.
func TestRunReturnsWhatTheBodyReturned(t *testing.T) {
	for _, want := range []error{nil, errBody} {
		synctest.Test(t, func(t *testing.T) {
			a := newAuthority()
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), ctxKey{}, "value"), time.Hour)
			defer cancel()
			err := ownership.Run(ctx, a, "shard-7", func(ctx context.Context, tenure *ownership.Tenure) error {
				wantState(t, tenure, ownership.Held)
				if ctx.Value(ctxKey{}) != "value" || ctx.Err() != nil {
					t.Errorf("the body's context: %v", ctx)
				}
				if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Hour {
					t.Error("the body's context has not ctx's deadline")
				}
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				time.Sleep(time.Second)
				return errors.Join(child.Err(), want)
			})
			if !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("got %v, want %v", err, want)
			}
			vacant(t, a)
		})
	}
}

// Run's second rule: doubt cancels the body, with the cause; a proof starts it
// anew under the same token, though not before the first has returned.
func TestRunRestartsUnderTheSameToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		var bodies journal
		done := run(t.Context(), a, func(ctx context.Context, tenure *ownership.Tenure) error {
			bodies.add("start " + tenure.Token().String())
			if len(bodies.lines) > 2 {
				return errBody
			}
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), ownership.ErrNotHeld, ownership.ErrSuspect, errNetwork)
			time.Sleep(2 * time.Second) // slow to stop
			bodies.add("stop")
			return nil // which means "stopped" here, not "finished"
		})
		synctest.Wait()
		d := a.driver("shard-7")
		d.Doubt(errNetwork)
		time.Sleep(time.Second)
		now := d.Now()
		d.Confirm(now.Add(safeFor), now.Add(endsIn)) // proven before the body has stopped
		done.running(t)
		bodies.expect(t, "start 1")
		if err := <-done; err != errBody {
			t.Fatalf("Run: %v", err)
		}
		bodies.expect(t, "start 1", "stop", "start 1")
		vacant(t, a)
	})
}

// Run's second rule: while in doubt no body runs; after a loss it acquires again,
// and the body starts under a higher token.
func TestRunAcquiresAgainAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority()
		var bodies journal
		done := run(t.Context(), a, func(ctx context.Context, tenure *ownership.Tenure) error {
			bodies.add(tenure.Token().String())
			if tenure.Token() == 3 {
				return nil
			}
			<-ctx.Done()
			return errBody
		})
		synctest.Wait()
		a.driver("shard-7").Doubt(errNetwork)
		time.Sleep(endsIn - 1)
		bodies.expect(t, "1")
		done.running(t)
		time.Sleep(time.Second) // lost; and the next one is refused
		bodies.expect(t, "1", "2")
		a.driver("shard-7").Lose(ownership.ErrRefused)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		bodies.expect(t, "1", "2", "3")
	})
}

// DESIGN 2.4: a body that slept is told by its context's Err, though no timer and
// no callback has run, and its return means "stopped".
func TestRunBodyThatSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		bodies := 0
		done := run(t.Context(), &onlyOnce{r: &r}, func(ctx context.Context, tenure *ownership.Tenure) error {
			bodies++
			if bodies > 1 {
				return errBody
			}
			r.clock.Suspend(safeFor)
			if ctx.Err() == nil {
				t.Error("after a suspend beyond the deadline, ctx.Err is nil")
			}
			wantErr(t, context.Cause(ctx), ownership.ErrNotHeld, ownership.ErrSuspect, ownership.ErrExpired)
			return nil
		})
		done.running(t)
		r.prove()
		if err := <-done; err != errBody {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // it did not even look, and returned nil
		var r *rig
		bodies := 0
		done := run(t.Context(), &onlyOnce{r: &r}, func(context.Context, *ownership.Tenure) error {
			bodies++
			if bodies == 1 {
				r.clock.Suspend(safeFor)
				return nil
			}
			return errBody
		})
		done.running(t)
		r.prove()
		if err := <-done; err != errBody {
			t.Fatal(err)
		}
	})
}

// onlyOnce is an Ownership that grants one tenure, on a clock that can be
// suspended, and never another.
type onlyOnce struct {
	r      **rig
	change []func(*ownership.DriverConfig)
}

func (o onlyOnce) Acquire(ctx context.Context, _ string) (*ownership.Tenure, error) {
	if *o.r == nil {
		*o.r = held(o.change...)
		return (*o.r).tenure, nil
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (onlyOnce) TryAcquire(context.Context, string) (*ownership.Tenure, error) { panic("unused") }

func (onlyOnce) Holder(context.Context, string) (ownership.Holder, error) { panic("unused") }

func (onlyOnce) Watch(context.Context, string) iter.Seq2[ownership.Holder, error] { panic("unused") }

func (onlyOnce) Close(context.Context) error { panic("unused") }
