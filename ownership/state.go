package ownership

import (
	"fmt"
	"time"
)

// State is where a tenure stands. Only Held permits work.
type State uint8

const (
	// Acquiring: claimed, not yet proven. Next: Held, Lost.
	Acquiring State = iota + 1
	// Held: ours until the safe deadline. Next: Suspect, Lost, Released.
	Held
	// Suspect: not known to be ours, so treated as not ours. Next: Held, Lost.
	Suspect
	// Lost: over, whatever the authority says later. Terminal.
	Lost
	// Released: given back by the owner. Terminal.
	Released
)

// Terminal reports whether no state can follow s.
func (s State) Terminal() bool { return s == Lost || s == Released }

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Acquiring:
		return "acquiring"
	case Held:
		return "held"
	case Suspect:
		return "suspect"
	case Lost:
		return "lost"
	case Released:
		return "released"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// term is the part of a tenure that changes: its state and its two deadlines.
type term struct {
	state State
	safe  time.Time // until when the owner may act without further proof
	end   time.Time // the hard deadline plus the grace; zero: not bounded yet
}

type eventKind uint8

const (
	evTick    eventKind = iota // somebody asks, or a timer fired
	evProof                    // the authority proved that nobody was let in
	evDoubt                    // the driver has reason to doubt
	evLose                     // refusal, rival, revocation, stall
	evRelease                  // the owner gives it back
)

type event struct {
	kind      eventKind
	safe, end time.Time // of evProof
}

// step decides every change of a tenure's state; nothing else does. It is pure:
// the caller stores the result first, and cancels the work after that.
//
//	           proof  doubt    lose  release   past safe  past end
//	Acquiring  Held   -        Lost  Lost      -          Lost
//	Held       -      Suspect  Lost  Released  Suspect    Lost
//	Suspect    Held   -        Lost  Lost      -          Lost
//
// Invariants, walked by TestStep over every state, event and clock position:
//  1. Lost and Released are terminal (DESIGN 8.6).
//  2. The clock speaks before the event: past end the tenure is over, whatever
//     arrives (8.5).
//  3. safe and end never move backwards, and safe is never after end.
//  4. A proof whose own safe deadline has already passed is no licence to work,
//     whatever an earlier one said.
//  5. A release of a tenure that is not Held leaves it Lost: ownership was
//     unproven, so it was never known to be ours to give.
//  6. Looking again at the same instant changes nothing.
func (t term) step(now time.Time, ev event) term {
	switch {
	case t.state.Terminal():
		return t // stragglers are normal after the end
	case !t.end.IsZero() && !now.Before(t.end): // slept through the lease and its grace
		t.state = Lost
		return t
	case t.state == Held && !now.Before(t.safe):
		t.state = Suspect
	}
	switch ev.kind {
	case evTick: // the clock has spoken above
	case evProof:
		t.safe = later(t.safe, ev.safe)
		t.end = later(later(t.end, ev.end), t.safe)
		switch {
		case !now.Before(t.end): // the first proof of a claim, from too long ago
			t.state = Lost
		case now.Before(ev.safe):
			t.state = Held
		}
	case evDoubt:
		if t.state == Held {
			t.state = Suspect
		}
	case evLose:
		t.state = Lost
	case evRelease:
		if t.state == Held {
			t.state = Released
		} else {
			t.state = Lost
		}
	}
	return t
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
