package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// A process takes what is free of a set. What somebody else holds is in the error,
// and no reason not to work on the rest.
func ExampleOwnership_TryAcquireMany() {
	ctx := context.Background()
	store := memory.NewStore(memory.StoreOptions{Buckets: 1}) // stands for the authority
	first, err := lease.New(lease.Config{Store: store, Owner: "worker-1"})
	if err != nil {
		log.Fatal(err)
	}
	second, err := lease.New(lease.Config{Store: store, Owner: "worker-2"})
	if err != nil {
		log.Fatal(err)
	}
	other, err := first.TryAcquire(ctx, "shard-1")
	if err != nil {
		log.Fatal(err)
	}

	tenures, err := second.TryAcquireMany(ctx, []string{"shard-0", "shard-1", "shard-2"})
	for _, t := range tenures {
		fmt.Println(t.Resource(), "under token", t.Token())
	}
	var held *ownership.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Holder.Resource, "is held by", held.Holder.Owner.Name)
	}

	for _, t := range append(tenures, other) {
		_ = t.Release(ctx) // the work under it has ended
	}
	_ = first.Close(ctx)
	_ = second.Close(ctx)
	// Output:
	// shard-0 under token 2
	// shard-2 under token 2
	// shard-1 is held by worker-1
}

// An operator takes one resource away from a process that lives and renews. Its
// work is cancelled, its other tenures go on.
func ExampleOwnership_Revoke() {
	ctx := context.Background()
	store := memory.NewStore(memory.StoreOptions{})
	timing := ownership.Timing{TTL: 2 * time.Second} // renewed every 500 ms
	worker, err := lease.New(lease.Config{Store: store, Owner: "worker", Timing: timing})
	if err != nil {
		log.Fatal(err)
	}
	operator, err := lease.New(lease.Config{Store: store, Owner: "operator"})
	if err != nil {
		log.Fatal(err)
	}
	mine, err := worker.TryAcquireMany(ctx, []string{"shard-0", "shard-1"})
	if err != nil {
		log.Fatal(err)
	}

	if err := operator.Revoke(ctx, "shard-0"); err != nil {
		log.Fatal(err)
	}
	<-mine[0].Done() // at the next renewal
	fmt.Println("shard-0 is", mine[0].State(), "- revoked:", errors.Is(mine[0].Err(), ownership.ErrRevoked))
	fmt.Println("shard-1 is", mine[1].State())

	_ = mine[0].Release(ctx) // its work has ended, so others may have it
	holder, err := operator.Holder(ctx, "shard-0")
	fmt.Println(holder, err)

	_ = mine[1].Release(ctx)
	_ = worker.Close(ctx)
	_ = operator.Close(ctx)
	// Output:
	// shard-0 is lost - revoked: true
	// shard-1 is held
	// shard-0: vacant (fence 1) <nil>
}
