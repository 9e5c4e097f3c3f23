package fence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
	"github.com/tenure-go/tenure/ownership/memory"
)

// Register is a resource that keeps the contract: a value, the highest token it
// has accepted, and the ids of the operations that have taken effect.
type Register struct {
	mu    sync.Mutex
	token ownership.Token
	value string
	ops   map[string]bool
}

// Install lets a new owner in, and returns the value that no older owner can
// change any more.
func (r *Register) Install(s fence.Stamp) (string, fence.Verdict, error) {
	if err := s.Validate(); err != nil {
		return "", fence.NotApplied, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Token < r.token {
		return "", fence.Stale, &fence.StaleError{Resource: "the register", Token: s.Token, Current: r.token}
	}
	r.token = s.Token
	return r.value, fence.Accepted, nil
}

// Write sets the value, once for every op. The lock makes the check of the token
// and the effect one atomic step.
func (r *Register) Write(s fence.Stamp, op, value string) (fence.Verdict, error) {
	if err := s.Validate(); err != nil {
		return fence.NotApplied, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ops[op]:
		return fence.Duplicate, nil
	case s.Token < r.token:
		return fence.Stale, &fence.StaleError{Resource: "the register", Token: s.Token, Current: r.token}
	}
	if r.ops == nil {
		r.ops = map[string]bool{}
	}
	r.token, r.value, r.ops[op] = s.Token, value, true
	return fence.Accepted, nil
}

// An owner sleeps past its lease, a rival takes over, and the late write of the
// sleeper is refused by the resource, though nobody has told the sleeper yet.
func Example() {
	ctx := context.Background()
	own, control, err := memory.NewControlled("worker-1") // Control is for tests: it forces trouble
	if err != nil {
		fmt.Println(err)
		return
	}
	defer own.Close(ctx)
	var register Register

	t, err := own.Acquire(ctx, "shard-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Release(ctx)
	mine := fence.StampOf(t)
	if _, _, err := register.Install(mine); err != nil {
		fmt.Println(err)
	}
	verdict, err := register.Write(mine, "op-1", "from worker-1")
	fmt.Println("worker-1:", verdict, err)

	// While worker-1 sleeps:
	token, err := control.TakeOver("shard-7", "worker-2")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer control.Heal()
	theirs := fence.Stamp{Resource: "shard-7", Owner: "worker-2", Token: token}
	value, _, err := register.Install(theirs)
	fmt.Printf("worker-2 reads %q, %v\n", value, err)
	verdict, err = register.Write(theirs, "op-2", "from worker-2")
	fmt.Println("worker-2:", verdict, err)

	// worker-1 wakes up:
	verdict, err = register.Write(mine, "op-3", "late")
	fmt.Println("worker-1:", verdict, errors.Is(err, fence.ErrStale))
	fmt.Println(err)
	verdict, err = register.Write(mine, "op-1", "from worker-1")
	fmt.Println("worker-1 again:", verdict, err)
	fmt.Println("the value is", register.value)
	// Output:
	// worker-1: accepted <nil>
	// worker-2 reads "from worker-1", <nil>
	// worker-2: accepted <nil>
	// worker-1: stale true
	// the register refused token 1: it has accepted token 2; stop, a newer owner is at work
	// worker-1 again: duplicate <nil>
	// the value is from worker-2
}
