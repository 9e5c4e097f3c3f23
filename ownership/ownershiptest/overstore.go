package ownershiptest

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/clock"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/lease/storetest/faults"
)

// OverStore makes processes of [lease.Ownership] on the store that newStore
// returns for a test; it declines nothing. Each configure may change the
// configuration of every process.
func OverStore(newStore func(t *testing.T) lease.Store, configure ...func(*lease.Config)) func(*testing.T) Authority {
	return func(t *testing.T) Authority {
		store := newStore(t)
		return func(s Spec) (*Process, error) {
			var suspended clock.Manual
			view := faults.Wrap(s.Owner, store)
			cfg := lease.Config{
				Store: view, Owner: s.Owner, Timing: s.Timing, Hooks: s.Hooks,
				PollEvery: min(s.Timing.TTL/40, 250*time.Millisecond),
				Clock:     suspended.Clock(),
			}
			for _, c := range configure {
				c(&cfg)
			}
			own, err := lease.New(cfg)
			if err != nil {
				return nil, err
			}
			return &Process{
				Ownership: own,
				Cut:       view.Cut,
				Heal:      view.Heal,
				Fail: func(mode Failure, n int) {
					view.Inject(faults.Fault{If: isChange, Times: n, Mode: modes[mode], Delay: s.Timing.RequestTimeout / 10})
				},
				Observe: func(f func(Request)) {
					if f == nil {
						view.Observe(nil)
						return
					}
					view.Observe(func(r faults.Request) { f(Request{Change: isChange(r), Answered: r.Answered}) })
				},
				Suspend:        suspended.Suspend,
				Drop:           func(ctx context.Context) error { return drop(ctx, store, own.Session()) },
				Revoke:         own.Revoke,
				TryAcquireMany: own.TryAcquireMany,
			}, nil
		}
	}
}

var modes = map[Failure]faults.Mode{
	LoseRequest: faults.Lose, LoseAnswer: faults.LoseAnswer, Late: faults.Late, Reject: faults.Reject, Hang: faults.Hang,
}

func isChange(r faults.Request) bool {
	switch r.Op {
	case faults.OpSession, faults.OpGrants, faults.OpPeek, faults.OpPeekSession:
		return false
	}
	return true
}

// drop deletes a session behind its owner's back.
func drop(ctx context.Context, store lease.Store, session string) error {
	var id lease.ID
	raw, err := hex.DecodeString(strings.ReplaceAll(session, "-", ""))
	if err != nil || len(raw) != len(id) {
		return fmt.Errorf("the process has no session to drop (%q)", session)
	}
	copy(id[:], raw)
	for {
		s, err := store.Session(ctx, id)
		if err != nil {
			return err
		}
		if !s.Alive() {
			return nil
		}
		if r := store.End(ctx, s); r.Outcome == ownership.Applied {
			return nil
		} else if r.Err != nil {
			return r.Err
		}
		// It was renewed in between.
	}
}
