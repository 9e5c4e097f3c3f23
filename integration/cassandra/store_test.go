package cassandra_test

import (
	"testing"

	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/lease/storetest"
)

// The suite that every lease.Store passes, on both bucket rules and both serial
// consistencies.
func TestStore(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			cfg := base(t, v)
			first, second := connect(t, cfg), connect(t, cfg)
			storetest.Run(t, storetest.Harness{
				New:    func(t *testing.T) lease.Store { return newStore(t, first, cfg) },
				Second: func(t *testing.T, _ lease.Store) lease.Store { return newStore(t, second, cfg) },
			})
		})
	}
}
