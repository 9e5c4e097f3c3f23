package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tenure-go/tenure/internal/clock"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/internal/kit"
)

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
	calls   int           // of users, under way
	settles int           // abandoned claims that are being settled
	idle    chan struct{} // closed when both are 0, for Close; nil: nobody waits
	shut    bool          // no further calls
	slots   map[string]*slot
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
		owner: ownership.NewOwner(cfg.Owner), closed: make(chan struct{}), slots: map[string]*slot{},
	}
	o.limits.MaxBatch = max(o.limits.MaxBatch, 1)
	o.ownerText = o.owner.String()
	o.closing, o.beginClosing = context.WithCancelCause(context.Background())
	o.background, o.endBackground = context.WithCancel(context.Background())
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
	fail := func(err error) (*ownership.Tenure, error) {
		return nil, fmt.Errorf("acquiring %s: %w", resource, err)
	}
	if err := ownership.CheckResource(resource); err != nil {
		return nil, fmt.Errorf("acquiring: %w", err)
	}
	ctx, leave, err := o.enter(ctx)
	if err != nil {
		return fail(err)
	}
	defer leave()
	var pace backoff
	began := o.clock.Now()
	for {
		t, err := o.acquireOnce(ctx, resource)
		if err == nil {
			return t, nil
		}
		rival := (*rivalError)(nil)
		switch {
		case ctx.Err() != nil:
			return fail(ended(ctx, err))
		case errors.Is(err, ownership.ErrInvalid): // the store will not have it, now or later
			return fail(err)
		case errors.As(err, &rival):
			pace.reset()
			if o.waitFor(ctx, rival.grant) != nil {
				return fail(ended(ctx, rival))
			}
		default:
			// Trouble with the authority is waited out: no outcome of ours is
			// open here, claim has settled or handed over what it sent.
			e := ownership.TroubleEvent{Resource: resource, Owner: o.owner, Attempt: pace.n + 1, Waited: o.clock.Now().Sub(began), Err: err}
			ownership.Each(o.hooks, func(h ownership.HookTrouble) { h.OnTrouble(e) })
			if pace.pause(ctx, o.cfg.PollEvery) != nil {
				return fail(ended(ctx, err))
			}
		}
	}
}

// acquireOnce makes one attempt, after any other of this process has ended.
func (o *Ownership) acquireOnce(ctx context.Context, resource string) (*ownership.Tenure, error) {
	s, err := o.reserve(ctx, resource, true)
	if err != nil {
		return nil, err
	}
	got, err := o.claim(ctx, o.store.Bucket(resource), []*slot{s})
	if len(got) == 0 {
		return nil, err
	}
	return got[0].driver.Tenure(), nil
}

// TryAcquire implements [ownership.Ownership].
func (o *Ownership) TryAcquire(ctx context.Context, resource string) (*ownership.Tenure, error) {
	got, err := o.TryAcquireMany(ctx, []string{resource})
	if len(got) == 1 {
		return got[0], nil
	}
	return nil, err
}

var errNilContext = ownership.Invalid("ctx", "nil", "must not be nil", "pass context.Background() if there is no other")

// enter counts a user's call in and binds its context to the life of o.
func (o *Ownership) enter(ctx context.Context) (_ context.Context, leave func(), _ error) {
	if o == nil || o.store == nil {
		return nil, nil, ownership.Invalid("Ownership", "nil", "must come from New", "look at the error that New returned")
	}
	if ctx == nil {
		return nil, nil, errNilContext
	}
	if ctx.Err() != nil {
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

// ended says why ctx ended, and what err has to add to that.
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
