package ownership

import (
	"errors"
	"fmt"
	"time"
)

// Timing holds every duration of a lease. The zero value of a field means its
// default; [Timing.WithDefaults] fills them in.
//
// The safe deadline of a renewal is the moment before its request was sent, plus
// TTL, minus Granularity, Skew and Margin. Validate proves that two renewals in
// a row can be lost and the third still comes in time:
//
//	3 · RenewEvery + RequestTimeout ≤ TTL − Granularity − Skew − Margin
//
// The shortest TTL is Granularity + [MinTTL], so 2 s for Cassandra, which counts
// whole seconds. The defaults fit any TTL, but shrink with a short one: below
// Granularity + 7 s RequestTimeout can be less than 2 s, and a server that is merely
// slow makes renewals unknown. Stay above that unless a takeover must be faster.
type Timing struct {
	// TTL is how long the authority keeps a session that is not renewed: the
	// longest time a resource stays blocked after its owner died. Default 15 s,
	// at most [MaxTTL].
	TTL time.Duration
	// RenewEvery is the pause between renewals. Default: TTL/4, or less if that
	// is needed for the rule above.
	RenewEvery time.Duration
	// RequestTimeout bounds each request to the authority. Default 2 s, or a third
	// of [Timing.Usable] if that is less. It should exceed the authority's own
	// time-out, so that a slow answer arrives as an answer.
	RequestTimeout time.Duration
	// Granularity is by how much the authority may drop a lease early because it
	// counts in coarse units: a fact of the store, filled in by its adapter (1 s
	// for Cassandra, 0 for memory). Set it only to be more careful.
	Granularity time.Duration
	// Skew bounds the difference between the wall clocks of any two servers of
	// the authority. Default 500 ms, or (TTL − Granularity)/20 if that is less.
	// Watch NTP: beyond this bound two owners can believe at once, and only the
	// fence refuses.
	Skew time.Duration
	// Margin is for everything else: the time between a check and what follows
	// it, timers that fire late. Default 250 ms, or (TTL − Granularity)/40 if that
	// is less.
	Margin time.Duration
	// Grace is how long past the hard deadline (send + TTL) a tenure stays
	// Suspect, hoping for proof, before it is Lost. Default: one TTL.
	Grace time.Duration
	// Drain bounds how long Close waits for work to end, beside its context.
	// Default: one TTL.
	Drain time.Duration
	// Stall, if not 0, is the watchdog: a tenure whose work has not called
	// Progress for so long is lost, so that stuck work does not stay in office.
	// At least RenewEvery. Default 0: no watchdog.
	Stall time.Duration
}

const (
	// MaxTTL is the longest TTL that is accepted, and the longest of every other
	// duration. A lease is for outages of seconds and minutes; a longer one would
	// only hide a mistake of units.
	MaxTTL = 24 * time.Hour
	// MinTTL is by how much a TTL must at least exceed Granularity. In less, a
	// pause of the scheduler or the garbage collector would end tenures.
	MinTTL = 100 * time.Millisecond
)

const defaultTTL = 15 * time.Second

// WithDefaults returns t with every zero field set to its default. A fault of one
// field does not spread: what depends on it gets a default that has none, so that
// Validate names the fault and nothing else.
func (t Timing) WithDefaults() Timing {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&t.TTL, defaultTTL)
	ttl := orElse(t.TTL, defaultTTL)
	net := ttl - orElse(t.Granularity, 0)
	if net <= 0 {
		net = ttl
	}
	def(&t.Skew, min(500*time.Millisecond, net/20))
	def(&t.Margin, max(1, min(250*time.Millisecond, net/40)))
	usable := net - orElse(t.Skew, 0) - orElse(t.Margin, 0)
	if usable <= 0 {
		usable = net
	}
	def(&t.RequestTimeout, max(1, min(2*time.Second, usable/3)))
	three := usable - orElse(t.RequestTimeout, 0)
	if three <= 0 {
		three = usable
	}
	def(&t.RenewEvery, max(1, min(ttl/4, three/3)))
	def(&t.Grace, ttl)
	def(&t.Drain, ttl)
	return t
}

// orElse returns d if it is a possible duration, and v otherwise.
func orElse(d, v time.Duration) time.Duration {
	if d < 0 || d > MaxTTL {
		return v
	}
	return d
}

// Usable is how long after a renewal was sent its owner may act on it. Like Safe
// and End it is for a Timing that Validate has passed.
func (t Timing) Usable() time.Duration { return t.TTL - t.Granularity - t.Skew - t.Margin }

// Safe returns the safe deadline of a renewal sent at the given instant.
func (t Timing) Safe(sent time.Time) time.Time { return sent.Add(t.Usable()) }

// End returns when a tenure last renewed at the given instant is over for good.
func (t Timing) End(sent time.Time) time.Time { return sent.Add(t.TTL + t.Grace) }

// Validate reports every fault at once, each an [ErrInvalid], or nil. It expects
// defaults to be filled in; see [Timing.WithDefaults].
func (t Timing) Validate() error {
	var faults []error
	fault := func(field string, d time.Duration, rule, remedy string) {
		faults = append(faults, Invalid("Timing."+field, d, rule, remedy))
	}
	// Rules between fields are checked only where each field is sound by itself:
	// with a broken one they would blame others, and huge ones could overflow.
	sound := func(field string, d, least time.Duration) bool {
		switch {
		case d > MaxTTL:
			fault(field, d, fmt.Sprintf("must be at most %v", MaxTTL), "check its unit")
		case d < least && least > 0:
			fault(field, d, "must be positive", "set it, or leave it 0 for its default")
		case d < least:
			fault(field, d, "must not be negative", "set it to 0 or more")
		default:
			return true
		}
		return false
	}
	const zero, positive = 0, 1
	ttl := sound("TTL", t.TTL, positive)
	renew := sound("RenewEvery", t.RenewEvery, positive)
	request := sound("RequestTimeout", t.RequestTimeout, positive)
	granularity := sound("Granularity", t.Granularity, zero)
	skew := sound("Skew", t.Skew, zero)
	margin := sound("Margin", t.Margin, positive)
	sound("Grace", t.Grace, positive)
	sound("Drain", t.Drain, positive)
	stall := sound("Stall", t.Stall, zero)

	switch {
	case !ttl || !granularity:
	case t.TTL-t.Granularity < MinTTL:
		fault("TTL", t.TTL, fmt.Sprintf("must be at least Granularity + %v = %v", MinTTL, t.Granularity+MinTTL), "raise TTL")
	case !skew || !margin:
	case t.Usable() <= 0:
		fault("TTL", t.TTL, fmt.Sprintf("must exceed Granularity + Skew + Margin = %v + %v + %v", t.Granularity, t.Skew, t.Margin),
			"raise TTL")
	case !renew || !request:
	case 3*t.RenewEvery+t.RequestTimeout > t.Usable():
		fault("RenewEvery", t.RenewEvery, fmt.Sprintf("must leave room for two lost renewals: 3 · RenewEvery + RequestTimeout = 3 · %v + %v"+
			" must be at most TTL − Granularity − Skew − Margin = %v − %v − %v − %v = %v",
			t.RenewEvery, t.RequestTimeout, t.TTL, t.Granularity, t.Skew, t.Margin, t.Usable()),
			"raise TTL, or lower RenewEvery or RequestTimeout")
	}
	if stall && renew && t.Stall > 0 && t.Stall < t.RenewEvery {
		fault("Stall", t.Stall, fmt.Sprintf("must be 0 or at least RenewEvery = %v", t.RenewEvery),
			"raise it: so short a pause is no sign that work is stuck")
	}
	return errors.Join(faults...)
}
