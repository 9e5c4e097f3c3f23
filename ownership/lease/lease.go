package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/internal/clock"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/internal/kit"
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
	// backup: every token granted is above it. Default 0.
	TokenFloor ownership.Token
	// LockDelay is how long a resource stays free after its owner crashed (a
	// release is no crash) before it is granted again: for resources that have no
	// fence. Default 0.
	LockDelay time.Duration
	// Clock is the seam for tests of this module; the zero value is the system's.
	Clock clock.Clock
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.PollEvery == 0 {
		c.PollEvery = 250 * time.Millisecond
	}
	if c.AuditEvery == 0 {
		c.AuditEvery = time.Minute
	}
	if c.Store != nil {
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
		if unit := c.Store.Limits().WholeTTL; unit > 0 && c.Timing.TTL%unit != 0 {
			faults = append(faults, ownership.Invalid("Timing.TTL", c.Timing.TTL,
				fmt.Sprintf("must be a multiple of %v, the unit in which this authority counts", unit), "round it up"))
		}
	}
	between("PollEvery", c.PollEvery, time.Millisecond, time.Hour)
	between("AuditEvery", c.AuditEvery, 10*time.Millisecond, 24*time.Hour)
	between("LockDelay", c.LockDelay, 0, ownership.MaxTTL)
	if c.TokenFloor < 0 {
		faults = append(faults, ownership.Invalid("TokenFloor", c.TokenFloor, "must not be negative", ""))
	}
	return errors.Join(faults...)
}

// Ownership implements [ownership.Ownership] over a [Store]. All methods are
// safe for concurrent use.
type Ownership struct {
	cfg       Config
	store     Store
	limits    Limits
	timing    ownership.Timing
	clock     clock.Clock
	hooks     ownership.Hooks
	owner     ownership.Owner
	ownerText string

	// closing ends when Close begins; every call by a user ends with it.
	closing      context.Context
	beginClosing context.CancelCauseFunc
	// background ends when Close is done; all goroutines of ours end with it.
	background    context.Context
	endBackground context.CancelFunc
	goroutines    sync.WaitGroup
	closed        chan struct{} // Close is done, closeErr is set
	closeErr      error

	sessions sessionKeeper
	buckets  buckets
	deaths   deaths
	releases releaseQueue

	mu      sync.Mutex
	calls   int // of users, under way
	idle    chan struct{}
	shut    bool
	slots   map[string]*slot
	settles int // abandoned claims that are being resolved
}

var _ ownership.Ownership = (*Ownership)(nil)

// New returns an Ownership. It validates cfg, reports all faults at once, and
// sends nothing: the session opens with the first claim.
func New(cfg Config) (*Ownership, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("lease.New: %w", err)
	}
	o := &Ownership{
		cfg: cfg, store: cfg.Store, limits: cfg.Store.Limits(), timing: cfg.Timing, clock: cfg.Clock, hooks: cfg.Hooks,
		owner:  ownership.NewOwner(cfg.Owner),
		closed: make(chan struct{}),
		slots:  map[string]*slot{},
	}
	o.limits.MaxBatch = max(o.limits.MaxBatch, 1)
	o.ownerText = o.owner.String()
	o.closing, o.beginClosing = context.WithCancelCause(context.Background())
	o.background, o.endBackground = context.WithCancel(context.Background())
	o.buckets.known = map[string]*bucket{}
	o.deaths.at = map[ID]time.Time{}
	return o, nil
}

// Owner returns who this process is in every grant it holds.
func (o *Ownership) Owner() ownership.Owner { return o.owner }

// Session returns the id of the current session, or "" when none is open.
func (o *Ownership) Session() string {
	if s := o.sessions.current(); s != nil {
		return s.id.String()
	}
	return ""
}

// Acquire implements [ownership.Ownership].
func (o *Ownership) Acquire(ctx context.Context, resource string) (*ownership.Tenure, error) {
	if err := ownership.CheckResource(resource); err != nil {
		return nil, fmt.Errorf("acquiring: %w", err)
	}
	ctx, leave, err := o.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquiring %s: %w", resource, err)
	}
	defer leave()
	var pace backoff
	for {
		s, err := o.reserve(ctx, resource, true)
		if err == nil {
			var got []*grant
			if got, err = o.claim(ctx, o.store.Bucket(resource), []*slot{s}); len(got) == 1 {
				return got[0].driver.Tenure(), nil
			}
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("acquiring %s: %w", resource, ended(ctx, err))
		}
		if rival := (*rivalError)(nil); errors.As(err, &rival) {
			pace.reset()
			err = o.waitFor(ctx, rival.grant)
		} else {
			// Trouble with the authority is waited out: no outcome of ours is
			// open here, claim has settled or handed over what it sent.
			err = pace.pause(ctx, o.cfg.PollEvery)
		}
		if err != nil {
			return nil, fmt.Errorf("acquiring %s: %w", resource, err)
		}
	}
}

// TryAcquire implements [ownership.Ownership].
func (o *Ownership) TryAcquire(ctx context.Context, resource string) (*ownership.Tenure, error) {
	got, err := o.TryAcquireMany(ctx, []string{resource})
	if len(got) == 1 {
		return got[0], nil
	}
	return nil, err
}

// enter counts a user's call in and binds its context to the life of o.
func (o *Ownership) enter(ctx context.Context) (context.Context, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shut {
		return nil, nil, ownership.ErrClosed
	}
	o.calls++
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(o.closing, func() { cancel(ownership.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.calls--
		o.noteIdle()
	}, nil
}

// noteIdle tells Close that nobody is inside and nothing is being settled. The
// caller holds mu.
func (o *Ownership) noteIdle() {
	if o.idle != nil && o.calls == 0 && o.settles == 0 {
		close(o.idle)
		o.idle = nil
	}
}

// ended joins what err has to say, if anything, with why ctx ended.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return cause
	case errors.Is(err, cause):
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// request bounds one request to the store.
func (o *Ownership) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, o.timing.RequestTimeout)
}

// Driver returns the driver of the tenure that this process has of resource, or
// nil. It is for the test kit of package memory.
func (o *Ownership) Driver(_ kit.Key, resource string) *ownership.Driver {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.slots[resource]; s != nil && s.grant != nil {
		return s.grant.driver
	}
	return nil
}
