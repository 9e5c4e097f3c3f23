package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// TryAcquireMany makes one attempt for each resource; those that share a bucket
// are claimed together, under one token, at the cost of one claim for each
// Limits.MaxBatch of them. It returns the tenures it got and, joined, an error
// for each resource that it did not get; a *[ownership.HeldError] for one that
// somebody holds. All tenures returned are held, or were a moment ago. Names are
// all checked before anything is sent; a name given twice is one of the faults.
func (o *Ownership) TryAcquireMany(ctx context.Context, resources []string) ([]*ownership.Tenure, error) {
	var faults []error
	seen := make(map[string]bool, len(resources))
	for _, r := range resources {
		if err := ownership.CheckResource(r); err != nil {
			faults = append(faults, err)
		} else if seen[r] {
			faults = append(faults, ownership.Invalid("resource", fmt.Sprintf("%q", r), "must be given once", "remove the other"))
		}
		seen[r] = true
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("acquiring: %w", errors.Join(faults...))
	}
	ctx, leave, err := o.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquiring: %w", err)
	}
	defer leave()

	batches := map[string][]*slot{}
	for _, r := range resources {
		s, err := o.reserve(ctx, r, false)
		if err != nil {
			faults = append(faults, fmt.Errorf("acquiring %s: %w", r, err))
			continue
		}
		b := o.store.Bucket(r)
		batches[b] = append(batches[b], s)
	}
	var (
		mu      sync.Mutex
		tenures []*ownership.Tenure
		work    sync.WaitGroup
		places  = make(chan struct{}, concurrency)
	)
	for name, slots := range batches {
		work.Add(1)
		places <- struct{}{}
		go func() {
			defer work.Done()
			defer func() { <-places }()
			for len(slots) > 0 {
				batch := slots[:min(len(slots), o.limits.MaxBatch)]
				slots = slots[len(batch):]
				got, err := o.claim(ctx, name, batch)
				mu.Lock()
				for _, g := range got {
					tenures = append(tenures, g.driver.Tenure())
				}
				if err != nil {
					faults = append(faults, err)
				}
				mu.Unlock()
			}
		}()
	}
	work.Wait()
	return tenures, errors.Join(faults...)
}

// concurrency is how many buckets are worked on at once: enough to hide the
// latency of an authority, little enough not to be a load on it.
const concurrency = 16

// errSessionOver says that the session a request belonged to has ended.
var errSessionOver = errors.New("the session ended")

// claim tries to own the slots' resources, all of one bucket. Each slot ends up
// with a grant, is given up, or stays taken until the background has settled
// what became of it. The error names every resource not granted.
func (o *Ownership) claim(ctx context.Context, name string, slots []*slot) ([]*grant, error) {
	sess, err := o.sessions.get(ctx, o)
	if err != nil {
		o.vacate(slots...)
		return nil, acquireError(slots, err)
	}
	b, err := o.buckets.take(ctx, name)
	if err != nil {
		o.vacate(slots...)
		return nil, acquireError(slots, err)
	}
	c := &claiming{o: o, session: sess, bucket: b, started: o.clock.Now()}
	got, rest, err := c.run(ctx, slots)
	if !c.abandoned { // else the background has the bucket and the slots
		o.buckets.give(b)
		o.vacate(rest...)
	}
	held := got[:0]
	for _, g := range got {
		if lost := o.awaitHeld(ctx, g); lost != nil {
			err = errors.Join(err, fmt.Errorf("acquiring %s: %w", g.resource, lost))
			continue
		}
		held = append(held, g)
	}
	return held, err
}

func acquireError(slots []*slot, err error) error {
	if len(slots) == 1 {
		return fmt.Errorf("acquiring %s: %w", slots[0].resource, err)
	}
	return fmt.Errorf("acquiring %s and %d more: %w", slots[0].resource, len(slots)-1, err)
}

// awaitHeld waits until a fresh grant is held: at once unless the session itself
// is in doubt. If that does not come, the grant is given back.
func (o *Ownership) awaitHeld(ctx context.Context, g *grant) error {
	for {
		proven := g.session.proof() // before the look, so that none is missed
		if safe, end, ok := g.session.deadlines(); ok {
			switch g.driver.Confirm(safe, end) {
			case ownership.Held:
				if ctx.Err() == nil {
					return nil
				}
			case ownership.Lost, ownership.Released:
				_ = g.driver.Tenure().Release(canceled)
				return g.driver.Tenure().Err()
			}
		}
		select {
		case <-proven:
		case <-ctx.Done():
			_ = g.driver.Tenure().Release(canceled)
			return context.Cause(ctx)
		}
	}
}

// canceled is for a Release that is not waited for.
var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// claiming is one locked bucket with a claim on it.
type claiming struct {
	o         *Ownership
	session   *session
	bucket    *bucket
	started   time.Time
	abandoned bool
}

// run claims what is free until every slot is granted or held by somebody else.
// It returns what it got, and the slots that it did not.
func (c *claiming) run(ctx context.Context, slots []*slot) (got []*grant, rest []*slot, err error) {
	o, b := c.o, c.bucket
	var pace backoff
	var held []error
	linearizable := false // after a refusal that did not tell all, a plain read may be older than it
	optimistic := true    // the first claim may rely on what is known from before
	rest = slots
	for len(rest) > 0 {
		if ctx.Err() != nil {
			return nil, slots, acquireError(rest, context.Cause(ctx))
		}
		if !optimistic || !b.knowsFree(rest) {
			if optimistic || linearizable {
				if err := c.look(ctx, rest, linearizable); err != nil {
					return nil, slots, acquireError(rest, err)
				}
			}
		}
		optimistic, linearizable = false, false
		free, taken, err := c.sort(ctx, rest)
		if err != nil {
			return nil, slots, err
		}
		held = append(held, taken...)
		if len(free) == 0 {
			return nil, slots, errors.Join(held...)
		}
		rest = rest[:0:0]
		for _, f := range free {
			rest = append(rest, f.slot)
		}
		claim := c.build(free)
		rctx, cancel := o.request(ctx)
		res := o.store.Claim(rctx, claim)
		cancel()
		if res.Outcome == ownership.Unknown {
			o.unknown("claim", b.name, res.Err, ownership.Unknown)
			res = c.resolve(ctx, claim, res.Err)
			if res.Outcome == ownership.Unknown {
				c.report(claim, res.Outcome, res.Err)
				c.abandon(claim, slots) // the slots too, until it is known
				return nil, nil, acquireError(rest, fmt.Errorf("%w: it is undone in the background: %w", ownership.ErrUnknown, res.Err))
			}
			o.unknown("claim", b.name, nil, res.Outcome)
		}
		c.report(claim, res.Outcome, res.Err)
		switch {
		case res.Outcome == ownership.Applied:
			return c.granted(claim, rest), without(slots, rest), errors.Join(held...)
		case res.Err != nil: // nothing was applied and nothing learned
			return nil, slots, acquireError(rest, errors.Join(append(held, res.Err)...))
		}
		linearizable = c.learnRefusal(res.Current, rest)
		if err := pace.pauseAfter(ctx, 3, o.cfg.PollEvery/4); err != nil {
			return nil, slots, acquireError(rest, err)
		}
	}
	return nil, slots, errors.Join(held...)
}

// without returns the slots that are not among granted.
func without(slots, granted []*slot) []*slot {
	return slices.DeleteFunc(slices.Clone(slots), func(s *slot) bool { return slices.Contains(granted, s) })
}

// knowsFree reports whether all rows are known, and free, from what this process
// did or saw before. Only a claim acts on that, and the store checks it.
func (b *bucket) knowsFree(slots []*slot) bool {
	if !b.seen {
		return false
	}
	for _, s := range slots {
		if g, ok := b.rows[s.resource]; !ok || !g.Free() {
			return false
		}
	}
	return true
}

// look reads the rows.
func (c *claiming) look(ctx context.Context, slots []*slot, linearizable bool) error {
	names := make([]string, len(slots))
	for i, s := range slots {
		names[i] = s.resource
	}
	read := c.o.store.Peek
	if linearizable {
		read = c.o.store.Grants
	}
	rctx, cancel := c.o.request(ctx)
	defer cancel()
	state, err := read(rctx, c.bucket.name, names)
	if err != nil {
		return fmt.Errorf("reading bucket %s: %w", c.bucket.name, err)
	}
	c.bucket.rows = nil
	c.bucket.learn(state, true)
	for _, n := range names {
		if _, ok := c.bucket.rows[n]; !ok {
			c.bucket.rows[n] = Grant{Resource: n}
		}
	}
	return nil
}

// learnRefusal takes over the state that refused a claim, and reports whether it
// left anything out.
func (c *claiming) learnRefusal(state Bucket, slots []*slot) (look bool) {
	if state.Partial {
		for _, s := range slots {
			if _, known := state.Row(s.resource); !known {
				c.bucket.forget()
				return true
			}
		}
		if state.Fence == 0 {
			c.bucket.forget()
			return true
		}
	}
	c.bucket.learn(state, true)
	for _, s := range slots {
		if _, ok := state.Rows[s.resource]; !ok {
			c.bucket.rows[s.resource] = Grant{Resource: s.resource}
		}
	}
	return false
}

// candidate is a resource that may be claimed, with the row that was judged:
// absent, free, or of a session that is dead for good. The claim replaces exactly
// that row, so nobody who came since is overrun.
type candidate struct {
	slot *slot
	row  Grant
}

// sort splits the slots into those that can be claimed and those that somebody
// holds, and makes sure that a dead holder is dead for good (DESIGN 5, takeover).
func (c *claiming) sort(ctx context.Context, slots []*slot) (free []candidate, taken []error, err error) {
	alive := map[ID]bool{} // one read a session, not one a row
	for _, s := range slots {
		for {
			g := c.bucket.rows[s.resource]
			if g.Free() {
				free = append(free, candidate{s, g})
				break
			}
			if g.Session == c.session.id {
				// Ours, but no tenure of ours: a claim that we gave up on landed
				// after all, or a hand edit. Nobody else cleans up a grant of a
				// living session. What the row is then is judged anew.
				if err := c.o.releaseStray(ctx, c.session, c.bucket, g); err != nil {
					return nil, nil, acquireError(slots, err)
				}
				continue
			}
			var ready time.Time
			if !alive[g.Session] {
				if alive[g.Session], ready, err = c.o.settleDeath(ctx, g.Session); err != nil {
					return nil, nil, acquireError(slots, fmt.Errorf("finding out whether %s still holds %s: %w", g.Owner, g.Resource, err))
				}
			}
			if !alive[g.Session] && !c.o.clock.Now().Before(ready) {
				free = append(free, candidate{s, g})
				break
			}
			taken = append(taken, fmt.Errorf("acquiring %s: %w", s.resource, &rivalError{
				HeldError: ownership.HeldError{Holder: holderOf(g, c.bucket.fence)},
				grant:     g,
			}))
			break
		}
	}
	return free, taken, nil
}

// build makes the request. Its attempt is fresh: one that was refused for good
// is never looked for again.
func (c *claiming) build(free []candidate) Claim {
	b := c.bucket
	claim := Claim{
		Bucket: b.name, Fence: b.fence, Next: max(b.fence, c.o.cfg.TokenFloor) + 1,
		Session: c.session.id, Attempt: NewID(), Owner: c.o.ownerText,
		Rows: make([]ClaimRow, len(free)),
	}
	for i, f := range free {
		claim.Rows[i] = ClaimRow{Resource: f.slot.resource, Found: f.row.Found, Over: f.row.Attempt}
	}
	return claim
}

// granted makes tenures of a claim that was applied.
func (c *claiming) granted(claim Claim, slots []*slot) []*grant {
	o := c.o
	got := make([]*grant, 0, len(slots))
	for _, s := range slots {
		c.bucket.settle(claim.Next, Grant{
			Resource: s.resource, Found: true, Token: claim.Next, Session: claim.Session, Attempt: claim.Attempt, Owner: claim.Owner})
		g := &grant{resource: s.resource, bucket: claim.Bucket, token: claim.Next, attempt: claim.Attempt, session: c.session, slot: s}
		g.driver = ownership.NewDriver(ownership.DriverConfig{
			Resource: s.resource, Owner: o.owner, Token: claim.Next, Stall: o.timing.Stall, Hooks: o.hooks, Clock: o.clock,
			Free: func(done func(error)) { o.releases.push(o, g, done) },
		})
		o.mu.Lock()
		s.grant = g
		o.mu.Unlock()
		got = append(got, g)
	}
	c.session.carry(got)
	return got
}

func (c *claiming) report(claim Claim, outcome ownership.Outcome, err error) {
	e := ownership.ClaimEvent{Owner: c.o.owner, Outcome: outcome, Latency: c.o.clock.Now().Sub(c.started), Err: err}
	for _, r := range claim.Rows {
		e.Resources = append(e.Resources, r.Resource)
	}
	if outcome == ownership.Applied {
		e.Token = claim.Next
	}
	ownership.Each(c.o.hooks, func(h ownership.HookClaim) { h.OnClaim(e) })
}
