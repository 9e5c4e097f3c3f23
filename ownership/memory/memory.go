package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/internal/kit"
	"github.com/tenure-go/tenure/ownership/lease"
)

// Option changes the configuration that [New] and [NewControlled] start from.
// Every field may be set, Store and Owner included.
type Option func(*lease.Config)

// New returns an Ownership within this process, over a store of its own unless
// an option gives it one. The errors are those of [lease.New].
func New(owner string, opts ...Option) (*lease.Ownership, error) {
	return lease.New(config(owner, opts))
}

func config(owner string, opts []Option) lease.Config {
	cfg := lease.Config{Owner: owner, Store: NewStore(StoreOptions{})}
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	return cfg
}

// ErrForced is matched by the cause of every doubt and loss that a [Control] made.
var ErrForced = errors.New("forced by a test")

// Control forces doubt, loss and takeover upon the tenures of one Ownership, so
// that a test of the code that uses them need not wait for a lease to run out.
// What follows from it is the library's ordinary course of events. All methods
// are safe for concurrent use.
type Control struct {
	own   *lease.Ownership
	store *Store

	mu     sync.Mutex
	rivals []rival
}

// rival holds one resource against the Ownership under test.
type rival struct {
	session lease.Session
	bucket  string
	grant   lease.Grant
}

// NewControlled is [New] and the Control of what it returns. An option that sets
// another Store than a *[Store] is an [ownership.ErrInvalid].
func NewControlled(owner string, opts ...Option) (*lease.Ownership, *Control, error) {
	cfg := config(owner, opts)
	store, ok := cfg.Store.(*Store)
	if !ok && cfg.Store != nil {
		return nil, nil, ownership.Invalid("Store", fmt.Sprintf("a %T", cfg.Store), "must be a *memory.Store", "set none, or one from NewStore")
	}
	own, err := lease.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	return own, &Control{own: own, store: store}, nil
}

// Store returns the Ownership's own view of the store, where finer faults can be
// injected; Store().Client makes a view for a second Ownership.
func (c *Control) Store() *Store { return c.store }

// Doubt makes the tenure of the resource Suspect at once, and cuts the whole
// process off from the authority, so that it stays in doubt until [Control.Heal].
// Healed within the lease, it is Held again from the next renewal on, under the
// same token and with a new Context; not healed in time it is Lost. Other
// tenures follow at their safe deadline.
func (c *Control) Doubt(resource string) error {
	d, err := c.driver(resource)
	if err != nil {
		return err
	}
	c.store.Cut() // first, or the next renewal would end the doubt
	d.Doubt(fmt.Errorf("%w: the authority does not answer", ErrForced))
	return nil
}

// Lose ends the tenure of the resource at once, as a refusal by the authority
// would. Its grant is given back when the work has ended, as ever.
func (c *Control) Lose(resource string) error {
	d, err := c.driver(resource)
	if err != nil {
		return err
	}
	d.Lose(fmt.Errorf("%w: %w", ownership.ErrRefused, ErrForced))
	return nil
}

func (c *Control) driver(resource string) (*ownership.Driver, error) {
	if d := c.own.Driver(kit.Key{}, resource); d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("%s: %w here; acquire it first", resource, ownership.ErrNotHeld)
}

// TakeOver lets a rival process have the resource, whoever holds it now, and
// returns the rival's token, the highest yet. A tenure of the Ownership under
// test is not told: it is in the position of a process that slept, and what it
// writes must be refused by the fence. Renewals go on and do not tell it either,
// also after [Control.Heal]; only the fence, the audit (Config.AuditEvery) or
// [Control.Lose] does. The rival stays until Heal.
func (c *Control) TakeOver(resource, rivalName string) (ownership.Token, error) {
	if err := errors.Join(ownership.CheckResource(resource), ownership.CheckOwner(rivalName)); err != nil {
		return 0, err
	}
	ctx := context.Background()
	store := c.store.data // a rival meets no faults
	r := rival{
		session: lease.Session{ID: lease.NewID(), Owner: ownership.NewOwner(rivalName).String(), TTL: ownership.MaxTTL},
		bucket:  store.Bucket(resource),
	}
	if res := store.Open(ctx, r.session); res.Outcome != ownership.Applied {
		return 0, fmt.Errorf("opening a session for %s: %w", rivalName, res.Err)
	}
	for {
		b, err := store.Grants(ctx, r.bucket, []string{resource})
		if err != nil {
			return 0, err
		}
		now, _ := b.Row(resource)
		claim := lease.Claim{
			Bucket: r.bucket, Fence: b.Fence, Next: b.Fence + 1,
			Session: r.session.ID, Attempt: lease.NewID(), Owner: r.session.Owner,
			Rows: []lease.ClaimRow{{Resource: resource, Found: now.Found, Over: now.Attempt}},
		}
		res := store.Claim(ctx, claim)
		switch {
		case res.Outcome == ownership.Applied:
			r.grant = lease.Grant{Resource: resource, Attempt: claim.Attempt}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.rivals = append(c.rivals, r)
			return claim.Next, nil
		case res.Err != nil:
			return 0, res.Err
		}
		// Somebody was faster by an instant; what is read next is newer.
	}
}

// Heal ends every trouble made here: the process reaches the authority again,
// faults injected into its view are removed, and the rivals have gone. A loss
// stays a loss.
func (c *Control) Heal() {
	c.store.Heal()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rivals {
		// Refused only if a later rival has taken it over, which leaves by itself.
		c.store.data.Release(context.Background(), r.bucket, []lease.Grant{r.grant})
		c.store.data.End(context.Background(), r.session)
	}
	c.rivals = nil
}
