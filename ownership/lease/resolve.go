package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/ownership"
)

// resolve finds out what became of a claim whose outcome is unknown, for as long
// as ctx and the session live. The rules, each of which a model broke without:
//
//   - Read the fence first, then the rows. The other way round a claim that lands
//     in between looks refused.
//   - Our attempt in a row: granted. Never by owner name.
//   - Fence beyond the claim's, without us: refused for good, for its condition
//     can never hold again.
//   - Fence unmoved: it may yet arrive. Send the very same again.
//   - A refused second copy proves nothing about the first: while the fence is
//     unmoved only moving it without a grant settles the matter.
//
// The answer is Unknown only if ctx or the session ended first.
func (c *claiming) resolve(ctx context.Context, claim Claim, cause error) Result[Bucket] {
	var pace backoff
	for {
		if err := c.endedBy(ctx); err != nil {
			return Unknown[Bucket](errors.Join(cause, err))
		}
		ours, state, err := c.readBack(ctx, claim)
		switch {
		case err != nil:
			cause = err
		case len(ours) > 0:
			return Applied[Bucket]()
		case state.Fence != claim.Fence:
			return Refused(state)
		default:
			res := c.sendAgain(ctx, claim)
			if res.Outcome == ownership.Applied {
				return res
			}
			if res.Outcome == ownership.NotApplied && res.Err == nil && c.moveFence(ctx, claim) == ownership.Applied {
				return Refused(Bucket{Name: claim.Bucket, Partial: true})
			}
			if res.Err != nil {
				cause = res.Err
			}
		}
		_ = pace.pause(ctx, c.o.timing.RequestTimeout/4)
	}
}

// errSessionOver says that the session a request belonged to has ended.
var errSessionOver = errors.New("the session ended")

// endedBy says what put an end to claiming in the foreground.
func (c *claiming) endedBy(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.session.isOver():
		return errSessionOver
	}
	return nil
}

// readBack reads the claim's rows and returns those that name its attempt.
func (c *claiming) readBack(ctx context.Context, claim Claim) (ours []Grant, state Bucket, err error) {
	names := make([]string, len(claim.Rows))
	for i, r := range claim.Rows {
		names[i] = r.Resource
	}
	rctx, cancel := c.o.request(ctx)
	defer cancel()
	state, err = c.o.store.Grants(rctx, claim.Bucket, names)
	if err != nil {
		return nil, state, fmt.Errorf("reading back bucket %s: %w", claim.Bucket, err)
	}
	for _, g := range state.Rows {
		if g.Attempt == claim.Attempt {
			ours = append(ours, g)
		}
	}
	return ours, state, nil
}

// sendAgain sends another copy, the same to the letter: the two cannot both apply,
// for the first to do so moves the fence.
func (c *claiming) sendAgain(ctx context.Context, claim Claim) Result[Bucket] {
	rctx, cancel := c.o.request(ctx)
	defer cancel()
	res := c.o.store.Claim(rctx, claim)
	if res.Outcome == ownership.Unknown {
		c.doubt.arises(res.Err)
	}
	return res
}

// moveFence raises the fence without a grant, so that no copy of the claim can
// apply any more. The token it burns is granted to nobody.
func (c *claiming) moveFence(ctx context.Context, claim Claim) ownership.Outcome {
	rctx, cancel := c.o.request(ctx)
	defer cancel()
	res := c.o.store.Claim(rctx, Claim{
		Bucket: claim.Bucket, Fence: claim.Fence, Next: claim.Fence + 1,
		Session: claim.Session, Attempt: claim.Attempt, Owner: claim.Owner})
	if res.Outcome == ownership.Unknown {
		move := doubt{o: c.o, op: "move fence", on: claim.Bucket}
		move.arises(res.Err) // where the fence stands answers it
	}
	return res.Outcome
}

// abandon hands an unknown claim, its bucket and its slots to the background.
func (c *claiming) abandon(claim Claim, slots []*slot) {
	o := c.o
	c.abandoned = true
	o.mu.Lock()
	o.settles++
	o.mu.Unlock()
	o.goroutines.Go(func() {
		if outcome := c.undo(o.background, claim); outcome != ownership.Unknown {
			c.doubt.ends(outcome)
		}
		c.bucket.forget()
		o.buckets.give(c.bucket)
		o.vacate(slots...)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.settles--
		o.noteIdle()
	})
}

// undo brings an abandoned claim to release or to impossibility: nobody else
// cleans up a grant of a living session. It ends without either only when the
// session or the Ownership does; then the grant, if there is one, names a session
// that ends.
func (c *claiming) undo(ctx context.Context, claim Claim) ownership.Outcome {
	var pace backoff
	for c.endedBy(ctx) == nil {
		if c.moveFence(ctx, claim) == ownership.Applied {
			return ownership.NotApplied
		}
		ours, state, err := c.readBack(ctx, claim)
		switch {
		case err != nil:
		case len(ours) > 0:
			if c.o.releaseRows(ctx, c.session, c.bucket, ours) == nil {
				return ownership.Applied
			}
		case state.Fence != claim.Fence:
			return ownership.NotApplied
		}
		_ = pace.pause(ctx, c.o.timing.RequestTimeout)
	}
	return ownership.Unknown
}
