package ownership

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// ExitOnLoss is a [Hook] that ends the process when a tenure that was held is
// lost. It is for work that cannot be cancelled: better no process than one that
// goes on without its resource. Release and Close do not trigger it, not even
// while the tenure is in doubt.
type ExitOnLoss struct {
	// OnSuspect ends the process as soon as the tenure is in doubt. A tenure in
	// doubt can be proven again until it is lost, but somebody else may be let in
	// meanwhile: set it where no fence would refuse what the work still writes.
	OnSuspect bool
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
	lost := t.To == Lost && t.From != Acquiring && !errors.Is(t.Cause, ErrReleased) && !errors.Is(t.Cause, ErrClosed)
	if !lost && !(e.OnSuspect && t.To == Suspect) {
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
		fmt.Fprintf(os.Stderr, "tenure: ending the process: %s (token %d) is %v: %v\n",
			t.Tenure.Resource(), t.Tenure.Token(), t.To, t.Cause)
		exit(code)
	}
	if e.After <= 0 {
		end()
		return
	}
	time.AfterFunc(e.After, end)
}
