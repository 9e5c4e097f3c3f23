package lease

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/ownership"
)

// Revoke takes a resource away from its owner, whoever that is, without its
// help but with its knowledge: the owner meets the revocation at its next
// renewal, ends that one tenure with [ownership.ErrRevoked] and gives the grant
// back when the work has ended. Its other tenures go on. Only the session that a
// row names may change the row, so nothing is removed here.
//
// Revoke returns when the revocation is written, or when nobody holds the
// resource; see Watch for when it is free. An owner that never renews again loses
// the resource by its TTL. The same owner may acquire it again: stop it first if
// it should not. An error that is [ownership.ErrUnknown] says that ctx ended and
// that the revocation may have been written, or may yet be.
func (o *Ownership) Revoke(ctx context.Context, resource string) error {
	return o.revoke(ctx, resource, "revoke", func(ctx context.Context, row Grant, s Session) (bool, Result[Session]) {
		r := revocation(row.Attempt, resource)
		if s.Revoked == r {
			return true, Applied[Session]()
		}
		res := o.store.Revoke(ctx, s.ID, r, s.TTL)
		// Refused by another one: that has to be met first.
		return res.Outcome == ownership.NotApplied && res.Err == nil && res.Current.Revoked == r, res
	})
}

// RevokeForce declares the whole session of the resource's owner dead, and with
// it ends all its tenures, for an owner that renews but does not obey. The owner
// learns of it at its next renewal; until its lease would have run out nobody
// else is let in. Errors are as for Revoke.
func (o *Ownership) RevokeForce(ctx context.Context, resource string) error {
	return o.revoke(ctx, resource, "kill", func(ctx context.Context, _ Grant, s Session) (bool, Result[Session]) {
		res := o.store.Kill(ctx, s.ID, &s.Seq, s.TTL+o.timing.Skew)
		// Refused by a renewal: once more, with its seq.
		return res.Outcome == ownership.NotApplied && res.Err == nil && !res.Current.Alive(), res
	})
}

// revocation is what is written to revoke one grant. The attempt alone would end
// its neighbours, too: a claim of many resources gives all of them one attempt. By
// hand an attempt can be written all the same, to end everything that it won.
func revocation(attempt ID, resource string) ID {
	sum := sha256.Sum256(append(attempt[:], resource...))
	id := ID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8 (RFC 9562): by a rule of our own
	id[8] = id[8]&0x3f | 0x80
	return id
}

// revokedBy reports whether r means this grant.
func (g *grant) revokedBy(r ID) bool { return r == g.attempt || r == revocation(g.attempt, g.resource) }

// revoke tries until it is done or nobody holds the resource any more. After an
// unknown outcome it looks at the session again, which is a read-back.
func (o *Ownership) revoke(ctx context.Context, resource, op string, try func(context.Context, Grant, Session) (done bool, _ Result[Session])) error {
	fail := func(err error) error { return fmt.Errorf("revoking %s: %w", resource, err) }
	if err := ownership.CheckResource(resource); err != nil {
		return fmt.Errorf("revoking: %w", err)
	}
	ctx, leave, err := o.enter(ctx)
	if err != nil {
		return fail(err)
	}
	defer leave()
	var (
		pace  backoff
		first Grant
		last  error
	)
	d := doubt{o: o, op: op, on: resource}
	for {
		row, s, h, err := o.holder(ctx, resource)
		switch {
		case err != nil:
			last = err
		case h.Vacant(), !first.Attempt.IsZero() && row.Attempt != first.Attempt:
			d.ends(ownership.Applied) // that grant is gone; the next one was not asked about
			return nil
		default:
			first = row
			rctx, cancel := o.request(ctx)
			done, res := try(rctx, row, s)
			cancel()
			if done || res.Outcome == ownership.Applied {
				d.ends(ownership.Applied)
				return nil
			}
			if last = res.Err; res.Outcome == ownership.Unknown {
				d.arises(res.Err)
			}
		}
		if errors.Is(last, ownership.ErrInvalid) {
			return fail(last)
		}
		if pace.pause(ctx, o.cfg.PollEvery) != nil {
			last = ended(ctx, last)
			if d.open {
				last = fmt.Errorf("%w: %w", ownership.ErrUnknown, last)
			}
			return fail(last)
		}
	}
}
