package ownership

import (
	"fmt"
	"os"
	"time"
)

// ExitOnLoss is a [Hook] that ends the process when a tenure is lost. It is for
// work that cannot be cancelled: better no process than one that goes on without
// its resource. A Release does not trigger it.
type ExitOnLoss struct {
	// After is how long the process has left to stop by itself; 0 ends it at
	// once, before any deferred function runs.
	After time.Duration
	// Code is the exit status; 0 stands for 1.
	Code int
	// Exit replaces os.Exit in tests.
	Exit func(code int)
}

// OnTransition implements [HookTransition].
func (e ExitOnLoss) OnTransition(t Transition) {
	if t.To != Lost {
		return
	}
	exit, code := e.Exit, e.Code
	if exit == nil {
		exit = os.Exit
	}
	if code == 0 {
		code = 1
	}
	end := func() {
		fmt.Fprintf(os.Stderr, "tenure: ending the process: %s (token %d) was lost: %v\n",
			t.Tenure.Resource(), t.Tenure.Token(), t.Cause)
		exit(code)
	}
	if e.After <= 0 {
		end()
		return
	}
	time.AfterFunc(e.After, end)
}
