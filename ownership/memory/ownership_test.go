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
