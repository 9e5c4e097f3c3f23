package ownership

import "time"

// Hook is any value that implements one or more of the Hook… interfaces. There
// is one small interface an event, so that new events break nobody.
//
// Hooks are called in the order of the events of one tenure or session, in the
// goroutine that caused or found out the first of them: a renewal waits for them,
// and so does a caller of State. So they must return soon, and not panic. They may
// call the tenure's methods, but must not wait for what may be waiting for them:
// a Release needs a context that has ended, or a goroutine of its own, and Close a
// goroutine of its own.
type Hook any

// Hooks is a list of hooks; each event goes to all that ask for it.
type Hooks []Hook

// HookTransition hears of every change of a tenure's state, after the state is
// stored and its work cancelled.
type HookTransition interface {
	OnTransition(Transition)
}

// Transition is one change of a tenure's state.
type Transition struct {
	Tenure    *Tenure
	From, To  State
	Cause     error         // nil when To is Held
	Remaining time.Duration // until the safe deadline; negative once it has passed
	InState   time.Duration // how long the tenure was in From
}

// HookClaim hears of every claim, when its outcome is known or given up.
type HookClaim interface {
	OnClaim(ClaimEvent)
}

// ClaimEvent is one attempt to acquire resources.
type ClaimEvent struct {
	Resources []string
	Owner     Owner
	Token     Token // 0 unless applied
	Outcome   Outcome
	Latency   time.Duration
	Err       error
}

// HookTrouble hears of every attempt of a waiting Acquire that failed for another
// reason than a rival: the authority does not answer, its schema is missing.
// Acquire waits that out, so without a listener it waits in silence.
type HookTrouble interface {
	OnTrouble(TroubleEvent)
}

// TroubleEvent is one attempt that failed; another follows.
type TroubleEvent struct {
	Resource string
	Owner    Owner
	Attempt  int           // counts from 1, anew after a rival was seen
	Waited   time.Duration // since Acquire was called
	Err      error
}

// HookRenewal hears of every renewal of a session.
type HookRenewal interface {
	OnRenewal(RenewalEvent)
}

// RenewalEvent is one renewal, resolved or not.
type RenewalEvent struct {
	Session   string
	Owner     Owner
	Outcome   Outcome
	Latency   time.Duration // of this request
	Remaining time.Duration // until the session's safe deadline, after this renewal
	Tenures   int           // that it carries
	Err       error
}

// HookSession hears of sessions that open and end.
type HookSession interface {
	OnSession(SessionEvent)
}

// SessionEvent is the begin or the end of a session.
type SessionEvent struct {
	Session string
	Owner   Owner
	Open    bool  // false: it ended
	Cause   error // why it ended; nil for an orderly Close
}

// HookUnknown hears of every request whose outcome is unknown, and again when it
// is resolved.
//
// One that nobody waits for any more, because the caller's context ended, is
// resolved without a word unless package lease resolves it in the background.
type HookUnknown interface {
	OnUnknown(UnknownEvent)
}

// UnknownEvent is an unknown outcome, or its resolution.
type UnknownEvent struct {
	Op       string // open, renew, kill, claim, release, move fence, close, revoke
	Resource string // or bucket; empty for sessions
	Err      error
	Resolved Outcome // Unknown: not yet
}

// Each calls f with every hook that is a T. Adapters use it to send their events.
func Each[T any](hooks Hooks, f func(T)) {
	for _, h := range hooks {
		if t, ok := h.(T); ok {
			f(t)
		}
	}
}

func (h Hooks) transition(e Transition) {
	Each(h, func(t HookTransition) { t.OnTransition(e) })
}
