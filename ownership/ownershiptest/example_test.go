package ownershiptest_test

import (
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
	"github.com/tenure-go/tenure/ownership/ownershiptest"
)

// An adapter that is a lease.Store: connect where this makes a memory.Store.
func ExampleRun() {
	var t *testing.T // of TestOwnership in the adapter's package
	store := memory.NewStore(memory.StoreOptions{})
	ownershiptest.Run(t, ownershiptest.Harness{
		New:    ownershiptest.OverStore(func(*testing.T) lease.Store { return store }),
		Timing: ownership.Timing{TTL: 4 * time.Second, Granularity: store.Limits().Granularity},
	})
}

// An adapter of another kind makes its own processes, and declines what it
// cannot do.
func ExampleRun_declines() {
	var t *testing.T // of TestOwnership in the adapter's package
	ownershiptest.Run(t, ownershiptest.Harness{
		New: func(t *testing.T) ownershiptest.Authority {
			store := memory.NewStore(memory.StoreOptions{})
			return func(s ownershiptest.Spec) (*ownershiptest.Process, error) {
				own, err := lease.New(lease.Config{Store: store, Owner: s.Owner, Timing: s.Timing, Hooks: s.Hooks})
				return &ownershiptest.Process{Ownership: own}, err
			}
		},
		Declines: []ownershiptest.Capability{
			ownershiptest.Faults, ownershiptest.Suspends, ownershiptest.Drops, ownershiptest.Revokes, ownershiptest.AcquiresMany,
		},
	})
}
