package memory_test

import (
	"testing"

	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/lease/storetest"
	"github.com/tenure-go/tenure/ownership/memory"
)

func TestStore(t *testing.T) {
	for name, opts := range map[string]memory.StoreOptions{
		"BucketPerResource": {},
		"Buckets":           {Buckets: 4},
		"Sparse":            {Buckets: 4, Sparse: true},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.Harness{
				New: func(*testing.T) lease.Store { return memory.NewStore(opts) },
				Second: func(_ *testing.T, first lease.Store) lease.Store {
					return first.(*memory.Store).Client("second")
				},
				VirtualTime: true,
			})
		})
	}
}
