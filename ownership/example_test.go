package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// Without Run: acquire, work, release. Release comes when the work has ended, and
// also after a loss.
func Example() {
	ctx := context.Background()
	own, err := memory.New("worker-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer own.Close(ctx)

	t, err := own.Acquire(ctx, "shard-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Resource(), t.State(), "under token", t.Token())

	_, err = own.TryAcquire(ctx, "shard-7") // a rival, in the same process or in another
	var held *ownership.HeldError
	if errors.As(err, &held) {
		fmt.Printf("%s is held by %s\n", held.Holder.Resource, held.Holder.Owner.Name)
	}

	if err := t.Release(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(t.State())
	// Output:
	// shard-7 held under token 1
	// shard-7 is held by worker-1
	// released
}

// Run starts the work whenever the resource is held, stops it when it is not, and
// ends when the work does.
func ExampleRun() {
	ctx := context.Background()
	own, control, err := memory.NewControlled("worker-1") // Control is for tests: it forces trouble
	if err != nil {
		fmt.Println(err)
		return
	}
	defer own.Close(ctx)

	err = ownership.Run(ctx, own, "shard-7", func(ctx context.Context, t *ownership.Tenure) error {
		fmt.Println("at work under token", t.Token())
		if t.Token() > 1 {
			return nil // finished
		}
		if err := control.Lose("shard-7"); err != nil {
			return err
		}
		<-ctx.Done()
		fmt.Println("stopped, lost:", errors.Is(context.Cause(ctx), ownership.ErrLost))
		return nil // ctx has ended, so this means "stopped", and Run goes on
	})
	fmt.Println("Run:", err)
	// Output:
	// at work under token 1
	// stopped, lost: true
	// at work under token 2
	// Run: <nil>
}

// Ensure is the cheap check before an effect that takes a while and cannot be
// fenced: is there enough time left, even if no renewal comes through?
func ExampleTenure_Ensure() {
	ctx := context.Background()
	own, err := memory.New("worker-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer own.Close(ctx)
	t, err := own.Acquire(ctx, "shard-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Release(ctx)

	fmt.Println("a second:", t.Ensure(time.Second) == nil)
	fmt.Println("an hour:", errors.Is(t.Ensure(time.Hour), ownership.ErrNotHeld))
	// Output:
	// a second: true
	// an hour: true
}

// A NotHeldError says which state stopped the work and why. It is what Ensure
// returns and what context.Cause tells of a tenure's context.
func ExampleNotHeldError() {
	ctx := context.Background()
	own, control, err := memory.NewControlled("worker-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer own.Close(ctx)
	t, err := own.Acquire(ctx, "shard-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Release(ctx)
	defer control.Heal()

	work := t.Context()
	if err := control.Doubt("shard-7"); err != nil {
		fmt.Println(err)
	}
	var stopped *ownership.NotHeldError
	if errors.As(context.Cause(work), &stopped) {
		fmt.Println(stopped.State, "under token", stopped.Token)
	}
	fmt.Println("wait for proof:", errors.Is(t.Ensure(0), ownership.ErrSuspect))
	fmt.Println("over:", t.Err() != nil)
	// Output:
	// suspect under token 1
	// wait for proof: true
	// over: false
}

// transitions is a hook: it implements the interfaces of the events it wants.
type transitions struct{}

func (transitions) OnTransition(e ownership.Transition) {
	fmt.Printf("%s: %v → %v\n", e.Tenure.Resource(), e.From, e.To)
}

func (transitions) OnClaim(e ownership.ClaimEvent) {
	fmt.Printf("claim of %v: %v\n", e.Resources, e.Outcome)
}

func ExampleHooks() {
	ctx := context.Background()
	own, err := memory.New("worker-1", func(c *lease.Config) { c.Hooks = ownership.Hooks{transitions{}} })
	if err != nil {
		fmt.Println(err)
		return
	}
	defer own.Close(ctx)
	t, err := own.Acquire(ctx, "shard-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := t.Release(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// claim of [shard-7]: applied
	// shard-7: acquiring → held
	// shard-7: held → released
}

// Every fault of a configuration is reported, with its value and its rule.
func ExampleTiming_Validate() {
	timing := ownership.Timing{
		TTL:        10 * time.Second,
		RenewEvery: 4 * time.Second,
		Drain:      -time.Second,
	}
	fmt.Println(timing.WithDefaults().Validate())
	// Output:
	// Timing.Drain is -1s: it must be positive; set it, or leave it 0 for its default
	// Timing.RenewEvery is 4s: it must leave room for two lost renewals: 3 · RenewEvery + RequestTimeout = 3 · 4s + 2s must be at most TTL − Granularity − Skew − Margin = 10s − 0s − 500ms − 250ms = 9.25s; raise TTL, or lower RenewEvery or RequestTimeout
}

func ExampleNewLogHook() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key { // what differs from run to run, for the sake of this example
			case slog.TimeKey, ownership.KeyOwner, ownership.KeySession, ownership.KeyRemaining, ownership.KeyInState:
				return slog.Attr{}
			}
			return a
		},
	}))
	ctx := context.Background()
	own, err := memory.New("worker-1", func(c *lease.Config) { c.Hooks = ownership.Hooks{ownership.NewLogHook(log)} })
	if err != nil {
		fmt.Println(err)
		return
	}
	defer own.Close(ctx)
	t, err := own.Acquire(ctx, "shard-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := t.Release(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// level=INFO msg="session opened"
	// level=INFO msg="tenure held" resource=shard-7 token=1 from=acquiring to=held
	// level=INFO msg="tenure released" resource=shard-7 token=1 from=held to=released cause="the tenure was released"
	// level=INFO msg="session ended"
}
