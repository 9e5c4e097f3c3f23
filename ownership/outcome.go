package ownership

import "fmt"

// Outcome is what is known of a request that changes something. There are three,
// and Unknown is never reported as either of the others. The zero value is
// Unknown.
type Outcome uint8

const (
	// Unknown: it may or may not have been applied, or may yet be.
	Unknown Outcome = iota
	// Applied: it took effect.
	Applied
	// NotApplied: it did not take effect and never will.
	NotApplied
)

// String returns the outcome in lower case: "unknown", "applied", "not applied".
func (o Outcome) String() string {
	switch o {
	case Unknown:
		return "unknown"
	case Applied:
		return "applied"
	case NotApplied:
		return "not applied"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}
