package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

func ExampleNew() {
	ctx := context.Background()
	own, err := memory.New("worker-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = own.Close(ctx) }()

	tenure, err := own.Acquire(ctx, "shard-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tenure.Resource(), tenure.State(), "token", tenure.Token())
	_ = tenure.Release(ctx)
	fmt.Println(tenure.State())

	holder, _ := own.Holder(ctx, "shard-7")
	fmt.Println(holder)
	// Output:
	// shard-7 held token 1
	// released
	// shard-7: vacant (fence 1)
}

// A test of one's own work: it is put in doubt and proven again, then a rival
// takes the resource, then the rival leaves.
func ExampleControl() {
	own, control, err := memory.NewControlled("worker-1", func(c *lease.Config) {
		c.Timing.TTL = 4 * time.Second // renewed every second
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = own.Close(context.Background()) }()

	run := 0
	err = ownership.Run(context.Background(), own, "shard-7", func(ctx context.Context, t *ownership.Tenure) error {
		run++
		fmt.Println("run", run, "under token", t.Token())
		switch run {
		case 1:
			_ = control.Doubt("shard-7")
			<-ctx.Done()
			fmt.Println("in doubt:", errors.Is(context.Cause(ctx), ownership.ErrSuspect))
			control.Heal() // the next renewal proves it again
		case 2:
			token, _ := control.TakeOver("shard-7", "worker-2")
			fmt.Println("worker-2 has token", token, "and worker-1 still believes:", t.State())
			_ = control.Lose("shard-7")
			<-ctx.Done()
			fmt.Println("lost:", errors.Is(context.Cause(ctx), ownership.ErrLost))
			control.Heal() // worker-2 leaves
		default:
			return nil
		}
		return ctx.Err()
	})
	fmt.Println("finished:", err)
	// Output:
	// run 1 under token 1
	// in doubt: true
	// run 2 under token 1
	// worker-2 has token 2 and worker-1 still believes: held
	// lost: true
	// run 3 under token 3
	// finished: <nil>
}
