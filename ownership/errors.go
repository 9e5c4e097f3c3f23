package ownership

import (
	"errors"
	"fmt"
	"time"
)

// Why work stopped, or why it cannot begin. All are matched with errors.Is, on
// the errors of every method and on context.Cause of a tenure's Context.
var (
	// ErrNotHeld is matched by every answer that says "not held now": Suspect,
	// Lost and Released alike. Stop writing.
	ErrNotHeld = errors.New("the tenure is not held")
	// ErrSuspect: it is not known whether the tenure is still ours. Work stops
	// at once; it may be proven again, under the same token.
	ErrSuspect = errors.New("ownership is in doubt")
	// ErrLost: the tenure is over for good. Acquire again.
	ErrLost = errors.New("the tenure is lost")
	// ErrReleased: the tenure was given back by its owner. One that is given back
	// while in doubt is Lost, since it may have been somebody else's already; its
	// error matches both.
	ErrReleased = errors.New("the tenure was released")

	// ErrExpired: the deadline passed without proof of ownership.
	ErrExpired = errors.New("the lease passed its deadline without proof")
	// ErrRefused: the authority says that the lease is not ours any more.
	ErrRefused = errors.New("the authority refused the lease")
	// ErrRevoked: an operator took the resource away.
	ErrRevoked = errors.New("the tenure was revoked by an operator")
	// ErrStalled: the work showed no progress within [Timing].Stall.
	ErrStalled = errors.New("the work made no progress")

	// ErrHeld: somebody holds the resource. The error is a [*HeldError].
	ErrHeld = errors.New("the resource is held")
	// ErrClosed: the Ownership was closed, or is closing.
	ErrClosed = errors.New("the ownership is closed")
	// ErrDraining: the tenure is over but its work is not, so its grant has not
	// been given back yet. That follows by itself once the work ends, or once
	// the deadline that the work was told has passed.
	ErrDraining = errors.New("the work has not ended yet")
	// ErrUnknown: a request was sent and its outcome is not known: it may or may
	// not have been applied. It goes on being resolved in the background.
	ErrUnknown = errors.New("the outcome is unknown")
	// ErrInvalid: bad input. The error is, or joins, [*InvalidError], unless it was
	// an authority or a driver that noticed.
	ErrInvalid = errors.New("invalid")
)

// InvalidError names one fault of the input.
type InvalidError struct {
	Field  string // what was given, as the caller knows it
	Value  string // its value, shortened
	Rule   string // what must hold
	Remedy string // what to do; may be empty
}

// Invalid returns an *InvalidError. Adapters use it, so that all faults of all
// packages read alike; join several with errors.Join.
func Invalid(field string, value any, rule, remedy string) error {
	return &InvalidError{Field: field, Value: fmt.Sprint(value), Rule: rule, Remedy: remedy}
}

// Error names the field, its value, the rule and what to do.
func (e *InvalidError) Error() string {
	s := fmt.Sprintf("%s is %s: it %s", e.Field, e.Value, e.Rule)
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

var errNilContext = Invalid("ctx", "nil", "must not be nil", "pass context.Background() if there is no other")

// HeldError says who holds the resource that could not be acquired.
type HeldError struct {
	Holder Holder
}

// Error names the holder and what to do.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is held by %s under token %d; wait with Acquire, or try again later",
		e.Holder.Resource, e.Holder.Owner, e.Holder.Token)
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// NotHeldError is the answer of [Tenure.Ensure], and the cause of a tenure's
// cancelled Context. It unwraps to what ended, or put in doubt, the tenure.
type NotHeldError struct {
	Resource  string
	Token     Token
	State     State
	Remaining time.Duration // until the safe deadline, less than was asked for; 0 unless State is Held
	Cause     error         // why; nil while State is Acquiring or Held
}

// Error says where the tenure stands, why, and what to do.
func (e *NotHeldError) Error() string {
	s := fmt.Sprintf("%s (token %d) is %s", e.Resource, e.Token, e.State)
	switch e.State {
	case Acquiring:
		s += ": wait until it is proven"
	case Held:
		return fmt.Sprintf("%s for another %v only, less than was asked for; try again after the next renewal", s, e.Remaining)
	case Suspect:
		s += ": stop work until it is proven again"
	case Lost, Released:
		s += ": stop, and acquire it again for a new token"
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Is matches ErrNotHeld and the sentinel of the state.
func (e *NotHeldError) Is(target error) bool {
	switch target {
	case ErrNotHeld:
		return true
	case ErrSuspect:
		return e.State == Suspect
	case ErrLost:
		return e.State == Lost
	case ErrReleased:
		return e.State == Released
	}
	return false
}

// Unwrap returns the Cause.
func (e *NotHeldError) Unwrap() error { return e.Cause }
