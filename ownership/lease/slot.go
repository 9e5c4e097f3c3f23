package lease

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tenure-go/tenure/ownership"
)

// slot is this process's one place for a resource: a claim under way, a tenure,
// or a grant that is being given back. Two of one process never race for a
// resource at the authority; they queue here.
type slot struct {
	resource string
	grant    *grant        // nil while claiming; set under Ownership.mu
	free     chan struct{} // closed when the slot is given up
}

// grant is what a claim won.
type grant struct {
	resource string
	bucket   string
	token    ownership.Token
	attempt  ID
	session  *session
	driver   *ownership.Driver
	slot     *slot
	leaving  atomic.Bool // it is being given back: nothing is done under it any more
}

// row is the grant as its claim wrote it.
func (g *grant) row() Grant {
	return Grant{Resource: g.resource, Found: true, Token: g.token, Session: g.session.id, Attempt: g.attempt, Owner: g.session.o.ownerText}
}

// reserve takes the resource's slot. If wait is false and a tenure of this
// process is in it, a *rivalError comes back at once, also when that tenure is
// over but its work is not. A claim or a release under way is waited for in any
// case, for it ends soon and nothing is known till then.
func (o *Ownership) reserve(ctx context.Context, resource string, wait bool) (*slot, error) {
	for {
		o.mu.Lock()
		s := o.slots[resource]
		if s == nil {
			s = &slot{resource: resource, free: make(chan struct{})}
			o.slots[resource] = s
			o.mu.Unlock()
			return s, nil
		}
		g := s.grant
		o.mu.Unlock()
		if !wait && g != nil && !g.leaving.Load() {
			return nil, heldHere(g)
		}
		select {
		case <-s.free:
		case <-ctx.Done():
			err := context.Cause(ctx)
			if g != nil {
				err = fmt.Errorf("%w: %w", err, heldHere(g))
			}
			return nil, err
		}
	}
}

// vacate gives slots up.
func (o *Ownership) vacate(slots ...*slot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range slots {
		if o.slots[s.resource] == s {
			delete(o.slots, s.resource)
			close(s.free)
		}
	}
}

// rivalError is a HeldError with the row that was seen, for whoever waits.
type rivalError struct {
	ownership.HeldError
	grant Grant
}

func (e *rivalError) Unwrap() error { return &e.HeldError }

func heldBy(g Grant, fence ownership.Token) error {
	return &rivalError{HeldError: ownership.HeldError{Holder: holderOf(g, fence)}, grant: g}
}

func heldHere(g *grant) error { return heldBy(g.row(), g.token) }
