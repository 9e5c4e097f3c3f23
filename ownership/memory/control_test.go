package memory_test

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

// controlled runs test in a bubble, with an Ownership that holds "shard" and its
// Control.
func controlled(t *testing.T, test func(t *testing.T, own *lease.Ownership, ctl *memory.Control, tenure *ownership.Tenure)) {
	synctest.Test(t, func(t *testing.T) {
		own, ctl, err := memory.NewControlled("worker")
		if err != nil {
			t.Fatal(err)
		}
		tenure, err := own.TryAcquire(t.Context(), "shard")
		if err != nil {
			t.Fatal(err)
		}
		test(t, own, ctl, tenure)
		ctl.Heal()
		_ = tenure.Release(context.Background())
		if err := own.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestDoubtAndRecovery(t *testing.T) {
	controlled(t, func(t *testing.T, _ *lease.Ownership, ctl *memory.Control, tenure *ownership.Tenure) {
		work := tenure.Context()
		if err := ctl.Doubt("shard"); err != nil {
			t.Fatal(err)
		}
		if tenure.State() != ownership.Suspect || work.Err() == nil {
			t.Fatalf("in doubt it is %s, its work %v", tenure.State(), work.Err())
		}
		if cause := context.Cause(work); !errors.Is(cause, ownership.ErrSuspect) || !errors.Is(cause, memory.ErrForced) {
			t.Errorf("the cause is %v", cause)
		}
		time.Sleep(5 * time.Second) // longer than a renewal interval
		if s := tenure.State(); s != ownership.Suspect {
			t.Fatalf("not healed, it is %s", s)
		}
		ctl.Heal()
		time.Sleep(5 * time.Second)
		if tenure.State() != ownership.Held || work.Err() == nil || tenure.Context().Err() != nil {
			t.Errorf("healed, it is %s", tenure.State())
		}
	})
}

func TestDoubtThatLasts(t *testing.T) {
	controlled(t, func(t *testing.T, own *lease.Ownership, ctl *memory.Control, tenure *ownership.Tenure) {
		other, err := own.TryAcquire(t.Context(), "neighbour")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Release(context.Background()) }()
		if err := ctl.Doubt("shard"); err != nil {
			t.Fatal(err)
		}
		if other.State() != ownership.Held {
			t.Errorf("the neighbour is %s at once", other.State())
		}
		<-tenure.Done()
		if !errors.Is(tenure.Err(), ownership.ErrLost) || other.State() == ownership.Held {
			t.Errorf("in the end: %v; the neighbour is %s", tenure.Err(), other.State())
		}
	})
}

func TestLose(t *testing.T) {
	controlled(t, func(t *testing.T, own *lease.Ownership, ctl *memory.Control, tenure *ownership.Tenure) {
		if err := ctl.Lose("shard"); err != nil {
			t.Fatal(err)
		}
		if err := tenure.Err(); !errors.Is(err, ownership.ErrLost) || !errors.Is(err, ownership.ErrRefused) || !errors.Is(err, memory.ErrForced) {
			t.Fatalf("lost: %v", err)
		}
		if err := tenure.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		again, err := own.TryAcquire(t.Context(), "shard")
		if err != nil || again.Token() <= tenure.Token() {
			t.Fatalf("acquired again: %v", err)
		}
		_ = again.Release(t.Context())
	})
}

func TestTakeOver(t *testing.T) {
	controlled(t, func(t *testing.T, own *lease.Ownership, ctl *memory.Control, tenure *ownership.Tenure) {
		token, err := ctl.TakeOver("shard", "rival")
		if err != nil || token <= tenure.Token() {
			t.Fatalf("token %d after %d, %v", token, tenure.Token(), err)
		}
		if tenure.State() != ownership.Held {
			t.Errorf("told at once: %s", tenure.State())
		}
		h, err := own.Holder(t.Context(), "shard")
		if err != nil || h.Owner.Name != "rival" || h.Token != token {
			t.Errorf("Holder: %v, %v", h, err)
		}
		// Once more, from the rival: the highest token wins again.
		second, err := ctl.TakeOver("shard", "rival")
		if err != nil || second <= token {
			t.Fatalf("token %d after %d, %v", second, token, err)
		}
		if err := ctl.Lose("shard"); err != nil {
			t.Fatal(err)
		}
		if err := tenure.Release(t.Context()); err != nil {
			t.Fatalf("a late release: %v", err)
		}
		var held *ownership.HeldError
		if _, err := own.TryAcquire(t.Context(), "shard"); !errors.As(err, &held) || held.Holder.Token != second {
			t.Fatalf("TryAcquire against the rival: %v", err)
		}
		time.Sleep(time.Hour) // the rival outlives every lease
		if _, err := own.TryAcquire(t.Context(), "shard"); !errors.Is(err, ownership.ErrHeld) {
			t.Fatalf("TryAcquire against the rival, later: %v", err)
		}
		ctl.Heal()
		again, err := own.TryAcquire(t.Context(), "shard")
		if err != nil || again.Token() <= second {
			t.Fatalf("the rival has gone: %v", err)
		}
		_ = again.Release(t.Context())
	})
}

// A takeover that nobody tells of is found by the audit.
func TestTakeOverIsNoticed(t *testing.T) {
	controlled(t, func(t *testing.T, _ *lease.Ownership, ctl *memory.Control, tenure *ownership.Tenure) {
		if _, err := ctl.TakeOver("shard", "rival"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute) // a round takes one; the first may have found nothing to look at
		if err := tenure.Err(); !errors.Is(err, ownership.ErrRefused) {
			t.Errorf("after three minutes: %v", err)
		}
	})
}

func TestControlRefusesBadInput(t *testing.T) {
	controlled(t, func(t *testing.T, _ *lease.Ownership, ctl *memory.Control, _ *ownership.Tenure) {
		if err := ctl.Doubt("nobody's"); !errors.Is(err, ownership.ErrNotHeld) {
			t.Errorf("Doubt: %v", err)
		}
		if err := ctl.Lose("nobody's"); !errors.Is(err, ownership.ErrNotHeld) {
			t.Errorf("Lose: %v", err)
		}
		if _, err := ctl.TakeOver("", ""); !errors.Is(err, ownership.ErrInvalid) {
			t.Errorf("TakeOver: %v", err)
		}
		if token, err := ctl.TakeOver("never owned", "rival"); err != nil || token != 1 {
			t.Errorf("TakeOver of what nobody holds: token %d, %v", token, err)
		}
		ctl.Heal()
		ctl.Heal()
	})
}
