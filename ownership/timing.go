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
type Timing struct {
	// TTL is how long the authority keeps a session that is not renewed: the
	// longest time a resource stays blocked after its owner died. Default 15 s,
	// at most [MaxTTL].
	TTL time.Duration
	// RenewEvery is the pause between renewals. Default: TTL/4, or less if that
	// is needed for the rule above.
	RenewEvery time.Duration
	// RequestTimeout bounds each request to the authority. Default 2 s, or less
	// for a short TTL. It should exceed the authority's own time-out, so that a
	// slow answer arrives as an answer.
	RequestTimeout time.Duration
	// Granularity is by how much the authority may drop a lease early because it
	// counts in coarse units: a fact of the store, filled in by its adapter (1 s
	// for Cassandra, 0 for memory). Set it only to be more careful.
	Granularity time.Duration
	// Skew bounds the difference between the wall clocks of any two servers of
	// the authority. Default 500 ms, or TTL/20 if that is less. Watch NTP: beyond
	// this bound two owners can believe at once, and only the fence refuses.
	Skew time.Duration
	// Margin is for everything else: the time between a check and what follows
	// it, timers that fire late. Default 250 ms, or TTL/40 if that is less.
	Margin time.Duration
	// Grace is how long past the hard deadline (send + TTL) a tenure stays
	// Suspect, hoping for proof, before it is Lost. Default: one TTL.
	Grace time.Duration
	// Drain bounds how long Close waits for work to end, beside its context.
	// Default: one TTL.
	Drain time.Duration
	// Stall, if not 0, is the watchdog: a tenure whose work has not called
	// Progress for so long is lost, so that stuck work does not stay in office.
	// Default 0: no watchdog.
	Stall time.Duration
}

// MaxTTL is the longest TTL that is accepted. A lease is for outages of seconds
// and minutes; a longer one would only hide a mistake of units.
const MaxTTL = 24 * time.Hour

// WithDefaults returns t with every zero field set to its default.
func (t Timing) WithDefaults() Timing {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&t.TTL, 15*time.Second)
	def(&t.Skew, min(500*time.Millisecond, t.TTL/20))
	def(&t.Margin, min(250*time.Millisecond, t.TTL/40))
	def(&t.RequestTimeout, min(2*time.Second, t.Usable()/3))
	def(&t.RenewEvery, min(t.TTL/4, (t.Usable()-t.RequestTimeout)/3))
	def(&t.Grace, t.TTL)
	def(&t.Drain, t.TTL)
	return t
}

// Usable is how long after a renewal was sent its owner may act on it.
func (t Timing) Usable() time.Duration { return t.TTL - t.Granularity - t.Skew - t.Margin }

// Safe returns the safe deadline of a renewal sent at the given instant.
func (t Timing) Safe(sent time.Time) time.Time { return sent.Add(t.Usable()) }

// End returns when a tenure last renewed at the given instant is over for good.
func (t Timing) End(sent time.Time) time.Time { return sent.Add(t.TTL + t.Grace) }

// Validate reports every fault at once, each an [ErrInvalid], or nil. It expects
// defaults to be filled in; see [Timing.WithDefaults].
func (t Timing) Validate() error {
	var faults []error
	positive := func(name string, d time.Duration) {
		if d <= 0 {
			faults = append(faults, Invalid("Timing."+name, d, "must be positive", "set it, or leave it 0 for its default"))
		}
	}
	notNegative := func(name string, d time.Duration) {
		if d < 0 {
			faults = append(faults, Invalid("Timing."+name, d, "must not be negative", ""))
		}
	}
	positive("TTL", t.TTL)
	positive("RenewEvery", t.RenewEvery)
	positive("RequestTimeout", t.RequestTimeout)
	notNegative("Granularity", t.Granularity)
	notNegative("Skew", t.Skew)
	positive("Margin", t.Margin)
	positive("Grace", t.Grace)
	positive("Drain", t.Drain)
	notNegative("Stall", t.Stall)
	if t.TTL > MaxTTL {
		faults = append(faults, Invalid("Timing.TTL", t.TTL, fmt.Sprintf("must be at most %v", MaxTTL), "check its unit"))
	}
	bounded := true
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"RenewEvery", t.RenewEvery}, {"RequestTimeout", t.RequestTimeout}, {"Granularity", t.Granularity}, {"Skew", t.Skew},
		{"Margin", t.Margin}, {"Grace", t.Grace}, {"Drain", t.Drain}, {"Stall", t.Stall},
	} {
		if d.d > MaxTTL {
			bounded = false
			faults = append(faults, Invalid("Timing."+d.name, d.d, fmt.Sprintf("must be at most %v", MaxTTL), "check its unit"))
		}
	}
	if t.TTL > 0 && t.TTL <= MaxTTL && bounded { // sums of larger values could overflow
		if t.Usable() <= 0 {
			faults = append(faults, Invalid("Timing.TTL", t.TTL,
				fmt.Sprintf("must exceed Granularity + Skew + Margin = %v + %v + %v", t.Granularity, t.Skew, t.Margin),
				"raise TTL"))
		} else if t.RenewEvery > 0 && t.RequestTimeout > 0 && 3*t.RenewEvery+t.RequestTimeout > t.Usable() {
			faults = append(faults, Invalid("Timing.RenewEvery", t.RenewEvery,
				fmt.Sprintf("must leave room for two lost renewals: 3 · RenewEvery + RequestTimeout = 3 · %v + %v must be at most TTL − Granularity − Skew − Margin = %v",
					t.RenewEvery, t.RequestTimeout, t.Usable()),
				"raise TTL, or lower RenewEvery or RequestTimeout"))
		}
		if t.Stall > 0 && t.Stall < t.RenewEvery {
			faults = append(faults, Invalid("Timing.Stall", t.Stall,
				fmt.Sprintf("must be at least RenewEvery = %v", t.RenewEvery), "raise it: work may pause that long"))
		}
	}
	return errors.Join(faults...)
}
