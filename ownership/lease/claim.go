package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// claim tries to own the slots' resources, all of one bucket. Each slot ends up
// with a grant, is given up, or stays taken until the background has settled
// what became of it. The error accounts for every resource not granted.
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
	sess.claimBegins()
	c := &claiming{
		o: o, session: sess, bucket: b, started: o.clock.Now(),
		judged: map[ID]verdict{}, doubt: doubt{o: o, op: "claim", on: name},
	}
	got, rest, err := c.run(ctx, slots)
	sess.claimEnds()
	if !c.abandoned { // else the background has the bucket
		o.buckets.give(b)
	}
	o.vacate(rest...)
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

// awaitHeld waits until a fresh grant is held: at once, unless the session itself
// is in doubt. If that does not come the grant is given back.
func (o *Ownership) awaitHeld(ctx context.Context, g *grant) error {
	t := g.driver.Tenure()
	for {
		proven := g.session.proof() // before the look, so that none is missed
		if safe, end, cause := g.session.deadlines(); cause == nil {
			g.driver.Confirm(safe, end)
		} else {
			g.driver.Lose(cause)
		}
		switch state := t.State(); {
		case state.Terminal():
			_ = t.Release(canceled)
			return t.Err()
		case state == ownership.Held && ctx.Err() == nil:
			return nil
		}
		select {
		case <-proven:
		case <-ctx.Done():
			_ = t.Release(canceled)
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
	rows      map[string]Grant // as last told
	judged    map[ID]verdict   // their sessions: one read for each, not one for each row
	doubt     doubt
	abandoned bool // the background has the bucket, and the slots of the claim
}

// verdict is what was found out about a session.
type verdict struct {
	alive bool
	ready time.Time // if not alive: since when its grants may be claimed
}

// look is how the rows are to be read before the next claim.
type look int

const (
	noLook look = iota
	plainly
	// linearizably, where a plain read may be older than what is known already,
	// or would have to bear a verdict: only a claim may rely on a hint.
	linearizably
)

// run claims what is free until every slot is granted or held by somebody else.
// It returns what it got, and the slots that are to be given up.
func (c *claiming) run(ctx context.Context, slots []*slot) (got []*grant, rest []*slot, err error) {
	var (
		pace   backoff
		held   []error
		wanted = slots
		next   = plainly
	)
	fail := func(err error) ([]*grant, []*slot, error) {
		return nil, slots, errors.Join(append(held, acquireError(wanted, err))...)
	}
	if c.rows = c.bucket.recall(wanted); c.rows != nil {
		next = noLook
	}
	for {
		if err := c.endedBy(ctx); err != nil {
			return fail(err)
		}
		how := next
		if next = noLook; how != noLook {
			if err := c.look(ctx, wanted, how); err != nil {
				return fail(err)
			}
		}
		if strays := c.strays(); len(strays) > 0 {
			_ = c.o.releaseRows(ctx, c.session, c.bucket, strays) // fails only by what endedBy says, too
			next = linearizably
			continue
		}
		free, taken, err := c.sort(ctx, wanted)
		if err != nil {
			return fail(err)
		}
		if len(taken) > 0 && how == plainly {
			next = linearizably
			continue
		}
		held = append(held, taken...)
		if len(free) == 0 {
			return nil, slots, errors.Join(held...)
		}
		wanted = free
		claim := c.build(wanted)
		switch res := c.send(ctx, claim); {
		case res.Outcome == ownership.Applied:
			return c.granted(claim, wanted), without(slots, wanted), errors.Join(held...)
		case res.Outcome == ownership.Unknown:
			c.abandon(claim, wanted)
			err := fmt.Errorf("%w: it is undone in the background: %w", ownership.ErrUnknown, res.Err)
			return nil, without(slots, wanted), errors.Join(append(held, acquireError(wanted, err))...)
		case res.Err != nil: // nothing was applied and nothing learned
			return fail(res.Err)
		default:
			clear(c.judged)
			if c.rows = c.bucket.learn(res.Current, wanted); c.rows == nil {
				next = linearizably
			}
		}
		if err := pace.pauseAfter(ctx, 3, c.o.cfg.PollEvery/4); err != nil {
			return fail(err)
		}
	}
}

// without returns the slots that are not among granted.
func without(slots, granted []*slot) []*slot {
	return slices.DeleteFunc(slices.Clone(slots), func(s *slot) bool { return slices.Contains(granted, s) })
}

// look reads the rows.
func (c *claiming) look(ctx context.Context, slots []*slot, how look) error {
	names := make([]string, len(slots))
	for i, s := range slots {
		names[i] = s.resource
	}
	read := c.o.store.Grants
	if how == plainly {
		read = c.o.store.Peek
	}
	rctx, cancel := c.o.request(ctx)
	defer cancel()
	state, err := read(rctx, c.bucket.name, names)
	if err != nil {
		return fmt.Errorf("reading bucket %s: %w", c.bucket.name, err)
	}
	state.Partial = false // a read tells everything
	c.rows = c.bucket.learn(state, slots)
	return nil
}

// strays returns rows that name our session though no tenure of ours is there: a
// claim that we gave up on landed after all, or a hand edit. Nobody else cleans
// up a grant of a living session.
func (c *claiming) strays() []Grant {
	var list []Grant
	for _, g := range c.rows {
		if !g.Free() && g.Session == c.session.id {
			list = append(list, g)
		}
	}
	return list
}

// sort splits the slots into those that can be claimed and those that somebody
// holds, and makes sure that a dead holder is dead for good (DESIGN 5, takeover).
// The claim replaces exactly the row that was judged here, so that nobody who
// came since is overrun.
func (c *claiming) sort(ctx context.Context, slots []*slot) (free []*slot, taken []error, err error) {
	for _, s := range slots {
		g := c.rows[s.resource]
		if g.Free() {
			free = append(free, s)
			continue
		}
		v, ok := c.judged[g.Session]
		if !ok {
			if v.alive, v.ready, err = c.o.deaths.find(ctx, c.o, g.Session); err != nil {
				return nil, nil, fmt.Errorf("finding out whether %s still holds %s: %w", g.Owner, g.Resource, err)
			}
			c.judged[g.Session] = v
		}
		if !v.alive && !c.o.clock.Now().Before(v.ready) {
			free = append(free, s)
			continue
		}
		taken = append(taken, fmt.Errorf("acquiring %s: %w", s.resource, heldBy(g, c.bucket.fence)))
	}
	return free, taken, nil
}

// build makes the request. Its attempt is fresh: one that was refused for good
// is never looked for again.
func (c *claiming) build(wanted []*slot) Claim {
	b := c.bucket
	claim := Claim{
		Bucket: b.name, Fence: b.fence, Next: max(b.fence, b.highest, c.o.cfg.TokenFloor) + 1,
		Session: c.session.id, Attempt: NewID(), Owner: c.o.ownerText,
		Rows: make([]ClaimRow, len(wanted)),
	}
	for i, s := range wanted {
		row := c.rows[s.resource]
		claim.Rows[i] = ClaimRow{Resource: s.resource, Found: row.Found, Over: row.Attempt}
	}
	return claim
}

// send sends the claim and finds out what became of it, if ctx and the session
// last long enough for that.
func (c *claiming) send(ctx context.Context, claim Claim) Result[Bucket] {
	rctx, cancel := c.o.request(ctx)
	res := c.o.store.Claim(rctx, claim)
	cancel()
	if res.Outcome == ownership.Unknown {
		c.doubt.arises(res.Err)
		if res = c.resolve(ctx, claim, res.Err); res.Outcome != ownership.Unknown {
			c.doubt.ends(res.Outcome)
		}
	}
	c.report(claim, res.Outcome, res.Err)
	return res
}

// granted makes tenures of a claim that was applied.
func (c *claiming) granted(claim Claim, slots []*slot) []*grant {
	o := c.o
	c.bucket.known, c.bucket.fence, c.bucket.highest = true, claim.Next, claim.Next
	got := make([]*grant, 0, len(slots))
	for _, s := range slots {
		c.bucket.note(s.resource, false, false)
		g := &grant{resource: s.resource, bucket: c.bucket.name, token: claim.Next, attempt: claim.Attempt, session: c.session, slot: s}
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
