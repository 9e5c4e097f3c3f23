package main

import (
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

// A command goes from the parent to a worker, an event back. Between processes
// each is one line of JSON, on the worker's stdin and stdout; the very first line
// to a child process is its [childConfig].
//
// A worker obeys one command after the other:
//
//	acquire   TryAcquire, then, if somebody holds it, Acquire: asks, waits?, owns
//	takeover  show the token to the table, then read it: tookOver
//	write     check the lease, write: checked, then wrote. With At set, the worker
//	          stops at that point (event: at) until it gets go; the first thing it
//	          does then is to look at its tenure (event: woke)
//	go        see write; the parent sends it only after it has frozen the worker
//	look      the state of the tenure: looked
//	renew     send, once more and by hand, the renewal that was due: renewed
//	free      send, by hand, the release of the grant by its attempt: freed
//	release   Tenure.Release: released
//	quit      close and end: bye
//
// At any time a worker reports the transitions of its tenure, and failed, after
// which it is of no more use.
type command struct {
	Do    string `json:"do"`
	Value string `json:"value,omitempty"`
	At    point  `json:"at,omitempty"`
}

// What a command does.
const (
	doAcquire  = "acquire"
	doTakeOver = "takeover"
	doWrite    = "write"
	doGo       = "go"
	doLook     = "look"
	doRenew    = "renew"
	doFree     = "free"
	doRelease  = "release"
	doQuit     = "quit"
)

type event struct {
	What  string          `json:"what"`
	Token ownership.Token `json:"token,omitempty"`
	State string          `json:"state,omitempty"` // of the tenure, when the event happened

	Verdict string            `json:"verdict,omitempty"` // of the fence
	Holder  *ownership.Holder `json:"holder,omitempty"`  // waits: who holds it
	Value   string            `json:"value,omitempty"`   // read, or written
	By      ownership.Token   `json:"by,omitempty"`      // tookOver: who wrote Value
	Seen    ownership.Token   `json:"seen,omitempty"`    // stale: the token that the table has
	Left    int64             `json:"left_ms,omitempty"` // checked: until the safe deadline
	At      point             `json:"at,omitempty"`
	Outcome string            `json:"outcome,omitempty"` // renewed, freed
	Refused bool              `json:"refused,omitempty"` // looked: lost because the authority said so
	Error   string            `json:"error,omitempty"`
}

// What happened.
const (
	evAsks       = "asks"
	evWaits      = "waits"
	evOwns       = "owns"
	evTookOver   = "tookOver"
	evChecked    = "checked" // Error is set if the check said no
	evAt         = "at"
	evWoke       = "woke"
	evWrote      = "wrote"
	evLooked     = "looked"
	evRenewed    = "renewed"
	evFreed      = "freed"
	evReleased   = "released"
	evTransition = "transition"
	evBye        = "bye"
	evFailed     = "failed"
)

// point is where in its write a worker is frozen.
type point string

const (
	// beforeCheck: it is about to look at its lease.
	beforeCheck point = "before-check"
	// afterCheck: the lease was good; the write is not sent yet.
	afterCheck point = "after-check"
	// inFlight: the write has left the worker and is held up on the way. It
	// arrives while the worker is frozen, after the other's write.
	inFlight point = "in-flight"
	// afterSending: the write has arrived, in time; its answer is not read yet.
	// The late write is the next one.
	afterSending point = "after-sending"
)

var points = []point{beforeCheck, afterCheck, inFlight, afterSending}

// name is how the command line calls it.
func (p point) name() string { return string(p) }

func (p point) String() string {
	switch p {
	case beforeCheck:
		return "before it checks its lease"
	case afterCheck:
		return "after its check, right before it writes"
	case inFlight:
		return "with its write in flight"
	case afterSending:
		return "after its write arrived, before it reads the answer"
	}
	return string(p)
}

// accepted and stale are verdicts as they travel.
var (
	accepted = fence.Accepted.String()
	stale    = fence.Stale.String()
	unknown  = fence.Unknown.String()
)
