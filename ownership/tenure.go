package ownership

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/internal/clock"
)

// Tenure is one unbroken period of ownership of one resource, by one owner,
// under one token. It is never revived: after Lost or Released, acquire again.
//
// All methods are safe for concurrent use, and every one of them looks at the
// clock before it answers: a process that slept through its lease reads "not
// held" from its first call, before anything has been sent or received.
//
// Whoever acquired a tenure calls [Tenure.Release] when the work under it has
// ended, also after it was lost: that is what tells the library that the work
// is over. [Run] does both.
type Tenure struct {
	resource string
	owner    Owner
	token    Token
	clock    clock.Clock
	stall    time.Duration
	hooks    Hooks
	free     func(done func(error))

	mu       sync.Mutex
	term     term
	cause    error         // why it is Suspect, Lost or Released
	since    time.Time     // of the current state
	progress time.Time     // last sign of life of the work
	period   *period       // the current period of Held; nil until somebody asks for its context
	changed  chan struct{} // closed at the next transition; nil until somebody waits
	done     chan struct{} // closed when terminal
	timer    *time.Timer
	wake     time.Time // what timer is armed for; zero: nothing
	working  int       // bodies of Run at work
	ended    bool      // Release was called: no further work will begin
	freeing  bool      // free was called, at most once
	freed    chan struct{}
	freeErr  error
	events   []Transition // not yet told to the hooks, in order
	telling  bool
}

// period is one period of Held, as its work sees it.
type period struct {
	context.Context
	cancel context.CancelCauseFunc
	tenure *Tenure
}

// Err looks at the clock first, so that work which slept is told at once even
// though no timer of the runtime has fired yet.
func (p *period) Err() error {
	if p.Context.Err() == nil {
		p.tenure.State()
	}
	return p.Context.Err()
}

// Resource returns the name that is owned.
func (t *Tenure) Resource() string { return t.resource }

// Owner returns who owns it: this process.
func (t *Tenure) Owner() Owner { return t.owner }

// Token returns the fencing token, fixed when the tenure was granted. It goes
// along with every write to the resource (package fence), also when the tenure
// is not held any more: the resource decides.
func (t *Tenure) Token() Token { return t.token }

// State returns the state at this instant of the clock.
func (t *Tenure) State() State {
	t.lock()
	defer t.unlock()
	return t.term.state
}

// Deadline returns the safe deadline: until then the owner may act without
// further proof. It moves forward with every renewal and never backwards. In any
// state but Held it lies in the past or does not count. The value is meant for
// time.Until at once: across a suspend of the machine it goes stale, while
// [Tenure.Ensure] does not.
func (t *Tenure) Deadline() time.Time {
	t.lock()
	defer t.unlock()
	return t.clock.Wall(t.term.safe)
}

// Ensure returns nil if the tenure is held now and stays so for at least d more
// without any renewal, and a *[NotHeldError] otherwise. It is a cheap local
// check, no substitute for the fence: the process may sleep right after it.
func (t *Tenure) Ensure(d time.Duration) error {
	t.lock()
	defer t.unlock()
	remaining := t.clock.Until(t.term.safe)
	if t.term.state == Held && remaining >= d {
		return nil
	}
	return t.notHeld(remaining)
}

// Err returns nil while the tenure is not over, and a *[NotHeldError] that says
// why it ended once it is Lost or Released.
func (t *Tenure) Err() error {
	t.lock()
	defer t.unlock()
	if !t.term.state.Terminal() {
		return nil
	}
	return t.notHeld(0)
}

// Done returns a channel that is closed when the tenure is Lost or Released. It
// stays open through Suspect; work listens to [Tenure.Context] instead.
func (t *Tenure) Done() <-chan struct{} { return t.done }

// Context returns the context of the current period of Held. It is cancelled the
// moment the tenure is not held, with a *[NotHeldError] as its cause; in any
// other state it is cancelled already. A tenure that was in doubt and is proven
// again has a new one: call Context again.
func (t *Tenure) Context() context.Context {
	t.lock()
	defer t.unlock()
	if t.period == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		t.period = &period{Context: ctx, cancel: cancel, tenure: t}
		if t.term.state != Held {
			cancel(t.notHeld(0))
		}
	}
	return t.period
}

// Progress tells the watchdog that the work is alive. Only with [Timing].Stall
// set is there one: without a call for so long the tenure is lost, although its
// process lives and renews.
func (t *Tenure) Progress() {
	t.lock()
	defer t.unlock()
	t.progress = t.clock.Now()
}

// Release ends the tenure: not held, work cancelled, and, once the work has
// ended, the grant given back so that others need not wait for the lease to run
// out. Calling it says that the caller's own work under the tenure has ended; if
// a body of [Run] is at work, Release waits for it. It is idempotent, and
// harmless after a loss: a late release never touches the next owner's grant.
//
// It returns nil when the grant is known to be gone. An error that is
// [ErrDraining] says that ctx ended first, or that Release was called by the
// body itself, while the work goes on: the grant is given back by itself later.
// One that is [ErrUnknown] says that the authority has not answered: it is
// asked again in the background until the session ends. In either case the
// tenure is over for this process.
func (t *Tenure) Release(ctx context.Context) error {
	t.lock()
	t.apply(event{kind: evRelease}, ErrReleased)
	t.ended = true
	t.maybeFree()
	inside := t.working > 0 && ctx.Value(bodyKey{}) == t
	freeing := t.freeing
	t.unlock()
	if inside {
		return fmt.Errorf("releasing %s (token %d): called by its own work, so the grant follows when that returns: %w",
			t.resource, t.token, ErrDraining)
	}
	select {
	case <-t.freed:
		return t.freeErr
	default:
	}
	select {
	case <-t.freed:
		return t.freeErr
	case <-ctx.Done():
		t.lock()
		freeing = t.freeing
		t.unlock()
		if !freeing {
			return fmt.Errorf("releasing %s (token %d): %w: %w", t.resource, t.token, ErrDraining, context.Cause(ctx))
		}
		return fmt.Errorf("releasing %s (token %d): %w: %w", t.resource, t.token, ErrUnknown, context.Cause(ctx))
	}
}

// bodyKey marks the context of a body of Run with its tenure.
type bodyKey struct{}

// lock takes the mutex and lets the clock speak, so that nothing is decided on
// a state that time has overtaken.
func (t *Tenure) lock() {
	t.mu.Lock()
	t.tick()
}

// tick applies the passage of time. The caller holds mu.
func (t *Tenure) tick() {
	if t.term.state.Terminal() {
		t.maybeFree()
		return
	}
	now := t.clock.Now()
	t.apply(event{kind: evTick}, ErrExpired)
	if t.stall > 0 && t.term.state == Held && !now.Before(t.progress.Add(t.stall)) {
		// The deadline freezes where it is: Lost takes no more proofs.
		t.apply(event{kind: evLose}, fmt.Errorf("%w for %v; call Progress more often, or raise Timing.Stall", ErrStalled, t.stall))
	}
}

// apply runs one event through step and carries out what follows from it. The
// caller holds mu; the hooks hear of it at unlock.
func (t *Tenure) apply(ev event, cause error) {
	now := t.clock.Now()
	before := t.term
	t.term = before.step(now, ev)
	if t.term.state == before.state {
		return
	}
	if ev.kind == evProof && t.term.state != Held {
		cause = ErrExpired // the clock spoke before the proof
	}
	if t.term.state == Held {
		cause = nil
		t.progress = now // each period starts with a fresh watchdog
	}
	t.cause = cause
	t.events = append(t.events, Transition{
		Tenure: t, From: before.state, To: t.term.state, Cause: cause,
		Remaining: t.term.safe.Sub(now), InState: now.Sub(t.since),
	})
	t.since = now
	if t.term.state != Held && t.period != nil {
		t.period.cancel(t.notHeld(0))
	}
	if t.term.state == Held {
		t.period = nil // the next caller of Context gets the new period's
	}
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	if t.term.state.Terminal() {
		close(t.done)
		t.maybeFree()
	}
}

// maybeFree hands the grant back once nothing can be done under it any more: the
// work has ended, or the deadline that it was told has passed (DESIGN 2.6). The
// caller holds mu.
func (t *Tenure) maybeFree() {
	if t.freeing || !t.term.state.Terminal() {
		return
	}
	if !(t.ended && t.working == 0) && t.clock.Now().Before(t.term.safe) {
		return
	}
	t.freeing = true
	if t.free == nil {
		close(t.freed)
		return
	}
	var once sync.Once
	t.free(func(err error) {
		once.Do(func() {
			t.freeErr = err
			close(t.freed)
		})
	})
}

// unlock arms the timer for the next instant at which the clock has something to
// say, releases mu and tells the hooks what happened, in order.
func (t *Tenure) unlock() {
	t.arm()
	if t.telling || len(t.events) == 0 {
		t.mu.Unlock()
		return
	}
	t.telling = true
	for len(t.events) > 0 {
		events := t.events
		t.events = nil
		t.mu.Unlock()
		for _, e := range events {
			t.hooks.transition(e)
		}
		t.mu.Lock()
	}
	t.telling = false
	t.mu.Unlock()
}

// minWait keeps a timer that fired early, by a clock that runs otherwise than
// the runtime's, from spinning.
const minWait = time.Millisecond

// arm sets the timer for the next deadline. One that is armed for an earlier
// instant is left alone: it fires, looks and arms itself again. So a renewal of
// a thousand tenures sets no timer. The caller holds mu.
func (t *Tenure) arm() {
	next := t.nextDeadline()
	if next.IsZero() {
		if t.timer != nil {
			t.timer.Stop()
			t.wake = time.Time{}
		}
		return
	}
	if !t.wake.IsZero() && !t.wake.After(next) {
		return
	}
	t.wake = next
	wait := max(t.clock.Until(next), minWait)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
	} else {
		t.timer.Reset(wait)
	}
}

func (t *Tenure) fire() {
	t.mu.Lock()
	t.wake = time.Time{}
	t.tick()
	t.unlock()
}

func (t *Tenure) nextDeadline() time.Time {
	switch {
	case t.freeing:
		return time.Time{}
	case t.term.state.Terminal():
		return t.term.safe
	case t.term.state == Held && t.stall > 0 && t.progress.Add(t.stall).Before(t.term.safe):
		return t.progress.Add(t.stall)
	case t.term.state == Held:
		return t.term.safe
	default:
		return t.term.end
	}
}

// notHeld describes the present state as an error. The caller holds mu.
func (t *Tenure) notHeld(remaining time.Duration) error {
	return &NotHeldError{Resource: t.resource, Token: t.token, State: t.term.state, Remaining: remaining, Cause: t.cause}
}

// await blocks until the state is not s, and returns the new one.
func (t *Tenure) await(ctx context.Context, s State) (State, error) {
	for {
		t.lock()
		now := t.term.state
		if now != s {
			t.unlock()
			return now, nil
		}
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		t.unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
}

// begin counts a body in, if the tenure is held; end counts it out.
func (t *Tenure) begin() bool {
	t.lock()
	defer t.unlock()
	if t.term.state != Held || t.ended {
		return false
	}
	t.working++
	return true
}

func (t *Tenure) end() {
	t.lock()
	defer t.unlock()
	t.working--
	t.maybeFree()
}
