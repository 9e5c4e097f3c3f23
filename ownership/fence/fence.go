package fence

import (
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/ownership"
)

// Stamp is what a write carries to the resource: under which token it was made.
// It is a value; it never changes after the grant.
type Stamp struct {
	Resource string
	Owner    string
	Token    ownership.Token
}

// StampOf returns the stamp of a tenure. The tenure need not be held: whether a
// late write counts is for the resource to decide.
func StampOf(t *ownership.Tenure) Stamp {
	return Stamp{Resource: t.Resource(), Owner: t.Owner().String(), Token: t.Token()}
}

// Validate reports an [ownership.ErrInvalid] for a stamp that no grant made.
func (s Stamp) Validate() error {
	if s.Token.Valid() {
		return nil
	}
	return ownership.Invalid("Stamp.Token", s.Token, "must be greater than 0", "take the stamp from a tenure with StampOf")
}

// Verdict is a fence's answer to one write. The zero value is Unknown.
type Verdict uint8

const (
	// Unknown: the write may or may not have taken effect. The error is
	// [ownership.ErrUnknown]; settle it before anything else is written.
	Unknown Verdict = iota
	// Accepted: the write took effect, once.
	Accepted
	// Duplicate: an earlier delivery of the same operation had taken effect; this
	// one changed nothing.
	Duplicate
	// Stale: a higher token is known; the write changed nothing and no write
	// under its token ever will. The error is a *[StaleError].
	Stale
	// NotApplied: the write changed nothing for another reason, which the error
	// gives. It may be tried again.
	NotApplied
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Unknown:
		return "unknown"
	case Accepted:
		return "accepted"
	case Duplicate:
		return "duplicate"
	case Stale:
		return "stale"
	case NotApplied:
		return "not applied"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// ErrStale is matched by every *[StaleError].
var ErrStale = errors.New("the token is stale")

// StaleError is the refusal of a token below the highest one that the resource
// has seen. It is final: stop, drop the tenure, acquire anew. If nobody newer is
// at work, the authority has lost its tokens (a restored backup, a truncated
// table): give it a TokenFloor above Current.
type StaleError struct {
	// Resource is what refused, in the fence's own words: a table and partition.
	Resource string
	// Token is the one that the write carried.
	Token ownership.Token
	// Current is the higher one that the resource holds; 0 if it did not say.
	Current ownership.Token
}

// Error names both tokens and what to do.
func (e *StaleError) Error() string {
	current := "a higher one"
	if e.Current.Valid() {
		current = "token " + e.Current.String()
	}
	return fmt.Sprintf("%s refused token %d: it has accepted %s; stop, a newer owner is at work", e.Resource, e.Token, current)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// HookVerdict hears of every verdict of a fence; it is one of the hooks of
// [ownership.Hooks].
type HookVerdict interface {
	OnVerdict(VerdictEvent)
}

// VerdictEvent is one verdict.
type VerdictEvent struct {
	Stamp   Stamp
	Verdict Verdict
	Err     error
}
