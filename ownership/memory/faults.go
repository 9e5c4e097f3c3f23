package memory

import "github.com/tenure-go/tenure/ownership/lease/storetest/faults"

// The faults that every view of a [Store] takes are those of package
// github.com/tenure-go/tenure/ownership/lease/storetest/faults; their fields and
// methods are documented there.
type (
	// Fault hits requests of one view.
	Fault = faults.Fault
	// Mode is what happens to them.
	Mode = faults.Mode
	// Op is a kind of request.
	Op = faults.Op
	// Request describes one request to an observer.
	Request = faults.Request
)

// ErrInjected is matched by the error of every fault that was injected.
var ErrInjected = faults.ErrInjected

// The modes of a [Fault], as documented in package
// github.com/tenure-go/tenure/ownership/lease/storetest/faults.
const (
	Lose       = faults.Lose
	LoseAnswer = faults.LoseAnswer
	Late       = faults.Late
	Reject     = faults.Reject
	Slow       = faults.Slow
	SlowAnswer = faults.SlowAnswer
	Hang       = faults.Hang
)

// The kinds of requests.
const (
	OpOpen        = faults.OpOpen
	OpRenew       = faults.OpRenew
	OpKill        = faults.OpKill
	OpRevoke      = faults.OpRevoke
	OpEnd         = faults.OpEnd
	OpSession     = faults.OpSession
	OpClaim       = faults.OpClaim
	OpRelease     = faults.OpRelease
	OpGrants      = faults.OpGrants
	OpPeek        = faults.OpPeek
	OpPeekSession = faults.OpPeekSession
)
