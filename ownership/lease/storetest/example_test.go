package storetest_test

import (
	"testing"

	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/lease/storetest"
	"github.com/tenure-go/tenure/ownership/memory"
)

func ExampleRun() {
	var t *testing.T // of TestStore in the store's package
	storetest.Run(t, storetest.Harness{
		New: func(*testing.T) lease.Store { return memory.NewStore(memory.StoreOptions{}) },
	})
}
