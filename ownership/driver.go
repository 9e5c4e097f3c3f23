package ownership

import (
	"time"

	"github.com/tenure-go/tenure/internal/clock"
)

// Driver drives one tenure: it is the adapter's side of a [Tenure], and there is
// no way from a Tenure to its Driver. An adapter that is a [lease.Store] never
// meets one; package lease drives its tenures.
//
// All methods are safe for concurrent use and never block on the network. They
// call Free and the hooks before they return, so call them without holding a lock
// that those might want.
//
// [lease.Store]: https://pkg.go.dev/github.com/tenure-go/tenure/ownership/lease#Store
type Driver struct {
	t *Tenure
}

// DriverConfig describes a new tenure.
type DriverConfig struct {
	Resource string
	Owner    Owner
	Token    Token
	// Stall is [Timing].Stall: 0 means no watchdog.
	Stall time.Duration
	Hooks Hooks
	// Free gives the grant back. It is called at most once, when the tenure is
	// over and its work has ended or the last deadline it was told has passed;
	// never while work may go on. It must not block. It calls done once, from any
	// goroutine, when the outcome is known: nil when the grant is gone, whoever
	// removed it. nil means that there is nothing to give back.
	Free func(done func(error))
	// Clock is for this module's own tests; leave it zero. Under testing/synctest
	// the zero value follows the bubble.
	Clock clock.Clock
}

// NewDriver makes a tenure in state Acquiring.
func NewDriver(cfg DriverConfig) *Driver {
	if !cfg.Clock.Valid() {
		cfg.Clock = clock.System()
	}
	now := cfg.Clock.Now()
	return &Driver{t: &Tenure{
		resource: cfg.Resource, owner: cfg.Owner, token: cfg.Token,
		clock: cfg.Clock, stall: cfg.Stall, hooks: cfg.Hooks, free: cfg.Free,
		term: term{state: Acquiring}, since: now, progress: now,
		done: make(chan struct{}), freed: make(chan struct{}),
	}}
}

// Tenure returns the user's side.
func (d *Driver) Tenure() *Tenure { return d.t }

// Now reads the tenure's clock. Instants for [Driver.Confirm] come from here,
// taken before the request that proves ownership is sent.
func (d *Driver) Now() time.Time { return d.t.clock.Now() }

// Confirm reports a proof by the authority that nobody was let in meanwhile.
// safe is until when the owner may act on it; end is when, without another
// proof, the tenure is lost for good (the hard deadline plus the grace). Both
// count from before the request was sent, and neither moves backwards. It
// returns the resulting state: not Held if the proof came too late.
func (d *Driver) Confirm(safe, end time.Time) State {
	now := d.t.lock()
	defer d.t.unlock()
	d.t.apply(now, event{kind: evProof, safe: safe, end: end}, nil)
	return d.t.term.state
}

// Doubt reports that it is not known whether the tenure is still ours. Work
// stops at once; a later Confirm lets it begin anew.
func (d *Driver) Doubt(cause error) { d.apply(evDoubt, cause) }

// Lose ends the tenure for good: a refusal, a rival, a revocation.
func (d *Driver) Lose(cause error) { d.apply(evLose, cause) }

// End ends the tenure as its owner's own Release would, without saying that its
// work has ended: the first half of a shutdown. Freed follows when the work ends,
// or when the deadline that it was told has passed.
func (d *Driver) End(cause error) { d.apply(evRelease, cause) }

func (d *Driver) apply(kind eventKind, cause error) {
	now := d.t.lock()
	defer d.t.unlock()
	d.t.apply(now, event{kind: kind}, cause)
}

// Freed is closed when Free was called and has reported its outcome.
func (d *Driver) Freed() <-chan struct{} { return d.t.freed }

// Abandon ends the tenure, if it has not ended, and stops its timer. Free will
// not be called, unless it was already: for a claim that came to nothing, and for
// an adapter that closes and leaves the grant to the end of its session. Release
// then returns cause, which must not be nil, unless the grant is known to be gone.
func (d *Driver) Abandon(cause error) {
	now := d.t.lock()
	defer d.t.unlock()
	if !d.t.freeing || d.t.freeNow { // freeNow: the clock decided it in lock, unlock has yet to call
		d.t.freeing, d.t.freeNow = true, false
		d.t.reportFreed(cause)
	}
	d.t.apply(now, event{kind: evLose}, cause)
}
