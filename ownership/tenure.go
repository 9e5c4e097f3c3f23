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

	done  chan struct{} // closed when terminal
	freed chan struct{} // closed when the grant's fate is known; freeErr is set before
	once  sync.Once     // the first report of free counts

	mu       sync.Mutex
	term     term
	cause    error         // why it is Suspect, Lost or Released
	since    time.Time     // of the current state
	progress time.Time     // last sign of life of the work
	period   *period       // the current period of Held; nil until somebody asks for its context
	changed  chan struct{} // closed at the next transition; nil until somebody waits
	timer    *time.Timer
	wake     time.Time // what timer is armed for; zero: nothing
	working  int       // bodies of Run at work
	ended    bool      // Release was called: no further work will begin
	freeing  bool      // the grant's removal was decided, which happens once
	freeNow  bool      // and free is to be called at unlock
	freeErr  error
	events   []Transition // not yet told to the hooks, in order
	telling  bool         // somebody is telling them
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

// Ensure returns nil if the tenure is held now and nobody else is let in for at
// least d more, even if no renewal succeeds; otherwise a *[NotHeldError]. It is a
// cheap local check, no substitute for the fence: the process may sleep right
// after it.
func (t *Tenure) Ensure(d time.Duration) error {
	now := t.lock()
	defer t.unlock()
	if t.term.state != Held {
		return t.notHeld(0)
	}
	if remaining := t.term.safe.Sub(now); remaining < d {
		return t.notHeld(remaining)
	}
	return nil
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
//
// Its Err looks at the clock. A context derived from it does so no more, and
// after a suspend of the machine learns of the end a moment later than this one.
func (t *Tenure) Context() context.Context {
	t.lock()
	defer t.unlock()
	return t.context()
}

func (t *Tenure) context() context.Context {
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
	now := t.lock()
	defer t.unlock()
	t.progress = now
}

// Release ends the tenure: not held, work cancelled, and, once the work has
// ended, the grant given back so that others need not wait for the lease to run
// out. Calling it says that the caller's own work under the tenure has ended; if
// a body of [Run] is at work, Release waits for it. It is idempotent, and
// harmless after a loss: a late release never touches the next owner's grant.
//
// It returns nil when the grant is known to be gone. An error that is
// [ErrDraining] says that ctx ended first, or that ctx is the context of the very
// body that is at work: the grant is given back by itself later. One that is
// [ErrUnknown] says that the authority has not answered: it is asked again in the
// background until the session ends. In either case the tenure is over for this
// process.
func (t *Tenure) Release(ctx context.Context) error {
	if ctx == nil {
		return t.releaseError(errNilContext)
	}
	now := t.lock()
	t.apply(now, event{kind: evRelease}, ErrReleased)
	t.ended = true
	t.maybeFree(now)
	freeing := t.freeing
	t.unlock()
	select {
	case <-t.freed:
		return t.releaseError(t.freeErr)
	default:
	}
	if !freeing && ctx.Value(bodyKey{t}) != nil {
		return t.releaseError(fmt.Errorf("called by its own work, so the grant follows when that returns: %w", ErrDraining))
	}
	select {
	case <-t.freed:
		return t.releaseError(t.freeErr)
	case <-ctx.Done():
	}
	t.lock()
	freeing = t.freeing
	t.unlock()
	if !freeing {
		return t.releaseError(fmt.Errorf("%w, and the grant follows when it does: %w", ErrDraining, context.Cause(ctx)))
	}
	return t.releaseError(fmt.Errorf("%w, it is resolved in the background: %w", ErrUnknown, context.Cause(ctx)))
}

func (t *Tenure) releaseError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("releasing %s (token %d): %w", t.resource, t.token, err)
}

// bodyKey marks the context of a body of Run with its tenure. The tenure is part
// of the key, so that a Run inside a body hides nothing.
type bodyKey struct{ t *Tenure }

// lock takes the mutex and lets the clock speak, so that nothing is decided on
// a state that time has overtaken. All that is decided until unlock is decided
// at the one instant that it returns: were the clock read again, step could take
// a Held tenure past its deadline and through the event in one go, and nobody
// would hear of the Suspect between.
func (t *Tenure) lock() time.Time {
	t.mu.Lock()
	now := t.clock.Now()
	t.tick(now)
	return now
}

// tick applies the passage of time. The caller holds mu.
func (t *Tenure) tick(now time.Time) {
	t.apply(now, event{kind: evTick}, ErrExpired)
	if t.stall > 0 && t.term.state == Held && !now.Before(t.progress.Add(t.stall)) {
		// The deadline freezes where it is: Lost takes no more proofs.
		t.apply(now, event{kind: evLose}, fmt.Errorf("%w for %v; call Progress more often, or raise Timing.Stall", ErrStalled, t.stall))
	}
	t.maybeFree(now)
}

// apply runs one event through step and carries out what follows from it. The
// caller holds mu; the hooks hear of it at unlock.
func (t *Tenure) apply(now time.Time, ev event, cause error) {
	before := t.term
	t.term = before.step(now, ev)
	if t.term.state == before.state {
		return
	}
	switch {
	case t.term.state == Held:
		cause = nil
		t.progress = now // each period starts with a fresh watchdog
	case ev.kind == evProof:
		cause = ErrExpired
	case before.state == Suspect && ev.kind != evLose && t.cause != nil && t.cause != ErrExpired:
		// Neither the clock nor the owner knows more than the doubt did.
		cause = fmt.Errorf("%w, in doubt because: %w", cause, t.cause)
	}
	t.cause = cause
	var remaining time.Duration
	if !t.term.safe.IsZero() {
		remaining = t.term.safe.Sub(now)
	}
	t.events = append(t.events, Transition{
		Tenure: t, From: before.state, To: t.term.state, Cause: cause,
		Remaining: remaining, InState: now.Sub(t.since),
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
		t.maybeFree(now)
	}
}

// maybeFree decides to hand the grant back once nothing can be done under it any
// more: the work has ended, or the deadline that it was told has passed (DESIGN
// 2.6). The caller holds mu.
func (t *Tenure) maybeFree(now time.Time) {
	if t.freeing || !t.term.state.Terminal() {
		return
	}
	if (!t.ended || t.working > 0) && now.Before(t.term.safe) {
		return
	}
	t.freeing, t.freeNow = true, true
}

func (t *Tenure) reportFreed(err error) {
	t.once.Do(func() {
		t.freeErr = err
		close(t.freed)
	})
}

// unlock arms the timer for the next instant at which the clock has something to
// say and releases mu. Then it does what must not happen under mu, for it is the
// adapter's and the user's code: giving the grant back, and telling the hooks.
func (t *Tenure) unlock() {
	t.arm()
	free, tell := t.freeNow, len(t.events) > 0 && !t.telling
	t.freeNow = false
	if tell {
		t.telling = true
	}
	t.mu.Unlock()
	if free {
		if t.free != nil {
			t.free(t.reportFreed)
		} else {
			t.reportFreed(nil)
		}
	}
	if tell {
		t.tell()
	}
}

// tell calls the hooks with every event there is. Events that come meanwhile,
// perhaps from a hook, join the queue; so all hooks see all events in order. A
// hook that panics, or ends its goroutine, costs its own event only.
func (t *Tenure) tell() {
	t.mu.Lock()
	defer func() {
		t.telling = false
		t.mu.Unlock()
	}()
	for len(t.events) > 0 {
		e := t.events[0]
		t.events = t.events[1:]
		t.tellOne(e)
	}
	t.events = nil
}

func (t *Tenure) tellOne(e Transition) {
	t.mu.Unlock()
	defer t.mu.Lock()
	t.hooks.transition(e)
}

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
	if wait := t.clock.Until(next); t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
	} else {
		t.timer.Reset(wait)
	}
}

func (t *Tenure) fire() {
	t.mu.Lock()
	t.wake = time.Time{}
	t.tick(t.clock.Now())
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

// awaitHeld waits until the tenure is held. It returns the cause of ctx, or why
// the tenure is over.
func (t *Tenure) awaitHeld(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.lock()
		state, err, changed := t.term.state, t.notHeld(0), t.changed
		if state != Held && !state.Terminal() && changed == nil {
			changed = make(chan struct{})
			t.changed = changed
		}
		t.unlock()
		switch {
		case state == Held:
			return nil
		case state.Terminal():
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// begin counts a body in, if the tenure is held, and returns the period's
// context; end counts it out. If that was the last, a Release follows.
func (t *Tenure) begin() (held context.Context, ok bool) {
	t.lock()
	defer t.unlock()
	if t.term.state != Held || t.ended {
		return nil, false
	}
	t.working++
	return t.context(), true
}

func (t *Tenure) end() {
	t.lock()
	defer t.unlock()
	t.working--
}

// gaveBack reports whether the tenure, while held, was ended by a call of
// Release, and by nothing else.
func (t *Tenure) gaveBack() bool {
	t.lock()
	defer t.unlock()
	return t.term.state == Released && t.cause == ErrReleased
}
