package memory_test

import (
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
	"github.com/tenure-go/tenure/ownership/ownershiptest"
)

func TestOwnership(t *testing.T) {
	for name, opts := range map[string]memory.StoreOptions{
		"BucketPerResource": {},
		"Buckets":           {Buckets: 4},
		"Sparse":            {Buckets: 4, MaxBatch: 3, Sparse: true},
	} {
		t.Run(name, func(t *testing.T) {
			ownershiptest.Run(t, ownershiptest.Harness{
				New:         ownershiptest.OverStore(func(*testing.T) lease.Store { return memory.NewStore(opts) }),
				Timing:      ownership.Timing{TTL: 10 * time.Second},
				VirtualTime: true,
			})
		})
	}
}

// An adapter that declines everything is still tested for the rest.
func TestOwnershipWithoutCapabilities(t *testing.T) {
	ownershiptest.Run(t, ownershiptest.Harness{
		New: func(*testing.T) ownershiptest.Authority {
			store := memory.NewStore(memory.StoreOptions{})
			return func(s ownershiptest.Spec) (*ownershiptest.Process, error) {
				own, err := lease.New(lease.Config{Store: store, Owner: s.Owner, Timing: s.Timing, Hooks: s.Hooks})
				return &ownershiptest.Process{Ownership: own}, err
			}
		},
		Declines: []ownershiptest.Capability{
			ownershiptest.Faults, ownershiptest.Suspends, ownershiptest.Drops, ownershiptest.Revokes, ownershiptest.AcquiresMany,
		},
		VirtualTime: true,
	})
}
