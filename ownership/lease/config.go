package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/internal/clock"
	"github.com/tenure-go/tenure/ownership"
)

// Config says how an [Ownership] works on a Store. Zero values mean defaults.
type Config struct {
	// Store is the authority.
	Store Store
	// Owner is the name of this process for people; see [ownership.Owner]. It
	// need not be unique.
	Owner string
	// Timing is the arithmetic of the lease. Granularity is raised to the
	// store's.
	Timing ownership.Timing
	Hooks  ownership.Hooks
	// PollEvery is how often a waiting Acquire and a Watch look for a change, on
	// average: each pause is jittered by half. A look is one plain read. Default
	// 250 ms; from 1 ms to 1 hour.
	PollEvery time.Duration
	// AuditEvery is how often every row of ours is looked at, by plain reads
	// spread over the time: it notices hand edits, truncation, restored backups.
	// Default 1 minute; from 10 ms to 24 hours.
	AuditEvery time.Duration
	// TokenFloor is for an authority whose data were lost or restored from a
	// backup: every token granted is above it. Default 0; at most [MaxTokenFloor].
	TokenFloor ownership.Token
	// LockDelay is how long a resource stays free after its owner crashed (a
	// release is no crash) before it is granted again: for resources that have no
	// fence. Default 0.
	LockDelay time.Duration
	// Clock is the seam for tests of this module; the zero value is the system's.
	Clock clock.Clock
}

// MaxTokenFloor leaves tokens enough above it for ever.
const MaxTokenFloor ownership.Token = 1 << 62

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.PollEvery == 0 {
		c.PollEvery = 250 * time.Millisecond
	}
	if c.AuditEvery == 0 {
		c.AuditEvery = time.Minute
	}
	if c.Store != nil && c.Timing.Granularity >= 0 { // a negative one is a fault to report
		c.Timing.Granularity = max(c.Timing.Granularity, c.Store.Limits().Granularity)
	}
	c.Timing = c.Timing.WithDefaults()
	if !c.Clock.Valid() {
		c.Clock = clock.System()
	}
	return c
}

// validate reports every fault at once.
func (c Config) validate() error {
	var faults []error
	between := func(field string, d, low, high time.Duration) {
		if d < low || d > high {
			faults = append(faults, ownership.Invalid(field, d, fmt.Sprintf("must be from %v to %v", low, high), "check its unit"))
		}
	}
	if c.Store == nil {
		faults = append(faults, ownership.Invalid("Store", "nil", "must not be nil", "give it an authority"))
	}
	if err := ownership.CheckOwner(c.Owner); err != nil {
		faults = append(faults, err)
	}
	if err := c.Timing.Validate(); err != nil {
		faults = append(faults, err)
	}
	if c.Store != nil {
		if unit := c.Store.Limits().WholeTTL; unit > 0 && c.Timing.TTL > 0 && c.Timing.TTL%unit != 0 {
			faults = append(faults, ownership.Invalid("Timing.TTL", c.Timing.TTL,
				fmt.Sprintf("must be a multiple of %v, the unit in which this authority counts", unit), "round it up"))
		}
	}
	between("PollEvery", c.PollEvery, time.Millisecond, time.Hour)
	between("AuditEvery", c.AuditEvery, 10*time.Millisecond, 24*time.Hour)
	between("LockDelay", c.LockDelay, 0, ownership.MaxTTL)
	if c.TokenFloor < 0 || c.TokenFloor > MaxTokenFloor {
		faults = append(faults, ownership.Invalid("TokenFloor", c.TokenFloor, fmt.Sprintf("must be from 0 to %d", MaxTokenFloor),
			"give it the highest token that a resource has seen"))
	}
	return errors.Join(faults...)
}
