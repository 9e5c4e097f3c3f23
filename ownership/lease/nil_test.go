package lease_test

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

// No panic leaves the library: an Ownership that New did not return, and a context
// that is nil, are bad input like any other.
func TestNilIsBadInput(t *testing.T) {
	var none context.Context
	good, err := memory.New("p")
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close(context.Background())
	for name, c := range map[string]struct {
		own *lease.Ownership
		ctx context.Context
	}{
		"Nil":     {nil, context.Background()},
		"Zero":    {&lease.Ownership{}, context.Background()},
		"Context": {good, none},
	} {
		t.Run(name, func(t *testing.T) {
			errs := map[string]error{}
			_, errs["Acquire"] = c.own.Acquire(c.ctx, "r")
			_, errs["TryAcquire"] = c.own.TryAcquire(c.ctx, "r")
			_, errs["Holder"] = c.own.Holder(c.ctx, "r")
			errs["Revoke"] = c.own.Revoke(c.ctx, "r")
			errs["RevokeForce"] = c.own.RevokeForce(c.ctx, "r")
			errs["Run"] = ownership.Run(c.ctx, c.own, "r", func(context.Context, *ownership.Tenure) error { return nil })
			for _, err := range c.own.Watch(c.ctx, "r") {
				errs["Watch"] = err
				break
			}
			for call, err := range errs {
				if !errors.Is(err, ownership.ErrInvalid) {
					t.Errorf("%s: %v, want ErrInvalid", call, err)
				}
			}
			if err := c.own.Close(c.ctx); name != "Context" && err != nil || name == "Context" && !errors.Is(err, ownership.ErrInvalid) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// A hook that panics within Close must not leave a zombie that renews for ever.
func TestHookThatPanicsInClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(memory.StoreOptions{})
		own, err := lease.New(lease.Config{Store: store, Owner: "p", Hooks: ownership.Hooks{panicsAtTheEnd{}}})
		if err != nil {
			t.Fatal(err)
		}
		tenure, err := own.Acquire(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = own.Close(t.Context())
		}()
		if err := own.Close(t.Context()); err != nil {
			t.Errorf("Close again: %v", err)
		}
		before := store.Counts()[memory.OpRenew]
		time.Sleep(time.Hour)
		if n := store.Counts()[memory.OpRenew] - before; n > 1 || tenure.State() == ownership.Held {
			t.Errorf("an hour after Close: %d renewals more, and the tenure is %s", n, tenure.State())
		}
	})
}

type panicsAtTheEnd struct{}

func (panicsAtTheEnd) OnTransition(e ownership.Transition) {
	if e.To.Terminal() {
		panic("of the user's")
	}
}

// An authority that lost its rows does not make a process that knows better grant
// a lower token (DESIGN 8.1).
func TestTokensOfATruncatedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &swapped{Store: memory.NewStore(memory.StoreOptions{})}
		own, err := lease.New(lease.Config{Store: store, Owner: "p"})
		if err != nil {
			t.Fatal(err)
		}
		var last ownership.Token
		for range 4 {
			tenure, err := own.Acquire(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			if tenure.Token() <= last {
				t.Errorf("token %d after %d", tenure.Token(), last)
			}
			last = tenure.Token()
			if err := tenure.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if last == 3 {
				store.Store = memory.NewStore(memory.StoreOptions{})
			}
		}
		_ = own.Close(t.Context())
	})
}

// swapped is a store whose data can be replaced by none.
type swapped struct{ lease.Store }

// A waiting Acquire says what it waits out.
func TestTroubleIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(memory.StoreOptions{})
		store.Inject(memory.Fault{Op: memory.OpOpen, Mode: memory.Reject, Times: 3})
		var heard troubles
		own, err := lease.New(lease.Config{Store: store, Owner: "p", Hooks: ownership.Hooks{&heard}})
		if err != nil {
			t.Fatal(err)
		}
		tenure, err := own.Acquire(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if len(heard) != 3 || heard[2].Attempt != 3 || !errors.Is(heard[0].Err, memory.ErrInjected) {
			t.Errorf("heard %+v, want three attempts", heard)
		}
		_ = tenure.Release(t.Context())
		_ = own.Close(t.Context())

		store.Inject(memory.Fault{Op: memory.OpOpen, Mode: memory.Reject, Times: -1})
		own, _ = lease.New(lease.Config{Store: store, Owner: "p"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = ownership.Run(ctx, own, "r", func(context.Context, *ownership.Tenure) error { return nil })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, memory.ErrInjected) {
			t.Errorf("Run in vain: %v, want the end of ctx and the trouble", err)
		}
		_ = own.Close(t.Context())
	})
}

type troubles []ownership.TroubleEvent

func (l *troubles) OnTrouble(e ownership.TroubleEvent) { *l = append(*l, e) }
