package cassandra_test

import (
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/ownershiptest"
)

// The suite that every Ownership passes. Cassandra declines nothing.
func TestOwnership(t *testing.T) {
	for _, v := range variants {
		if testing.Short() && v.change == nil {
			continue // a suite takes two minutes
		}
		t.Run(v.name, func(t *testing.T) {
			cfg := base(t, v)
			s := connect(t, cfg)
			ownershiptest.Run(t, ownershiptest.Harness{
				New:      ownershiptest.OverStore(func(t *testing.T) lease.Store { return newStore(t, s, cfg) }),
				Timing:   ownership.Timing{TTL: 8 * time.Second, Granularity: time.Second},
				Packages: []string{"github.com/tenure-go/tenure/cassandra"},
			})
		})
	}
}
