package lease

import (
	"context"
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
// it should not.
func (o *Ownership) Revoke(ctx context.Context, resource string) error {
	return o.revoke(ctx, resource, func(ctx context.Context, row Grant, s Session) (bool, error) {
		rctx, cancel := o.request(ctx)
		defer cancel()
		res := o.store.Revoke(rctx, s.ID, row.Attempt, s.TTL)
		switch {
		case res.Outcome == ownership.Applied:
			return true, nil
		case res.Outcome == ownership.Unknown:
			o.unknown("revoke", resource, res.Err, ownership.Unknown)
			return false, fmt.Errorf("%w: %w", ownership.ErrUnknown, res.Err)
		case res.Err != nil:
			return false, res.Err
		}
		// Another revocation may have to be met first.
		return res.Current.Revoked == row.Attempt, nil
	})
}

// RevokeForce declares the whole session of the resource's owner dead, and with
// it ends all its tenures, for an owner that renews but does not obey. The owner
// learns of it at its next renewal; until its lease would have run out nobody
// else is let in.
func (o *Ownership) RevokeForce(ctx context.Context, resource string) error {
	return o.revoke(ctx, resource, func(ctx context.Context, row Grant, s Session) (bool, error) {
		rctx, cancel := o.request(ctx)
		defer cancel()
		res := o.store.Kill(rctx, s.ID, &s.Seq, s.TTL+o.timing.Skew)
		switch {
		case res.Outcome == ownership.Applied:
			return true, nil
		case res.Outcome == ownership.Unknown:
			o.unknown("kill", resource, res.Err, ownership.Unknown)
			return false, fmt.Errorf("%w: %w", ownership.ErrUnknown, res.Err)
		case res.Err != nil:
			return false, res.Err
		}
		return !res.Current.Alive(), nil // renewed in between: once more
	})
}

// revoke tries until try is done or nobody holds the resource. After an unknown
// outcome it looks at the session again, which is a read-back.
func (o *Ownership) revoke(ctx context.Context, resource string, try func(context.Context, Grant, Session) (bool, error)) error {
	fail := func(err error) error { return fmt.Errorf("revoking %s: %w", resource, err) }
	if err := ownership.CheckResource(resource); err != nil {
		return fail(err)
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
	for {
		row, s, h, err := o.holder(ctx, resource)
		switch {
		case err == nil && h.Vacant():
			return nil
		case err == nil && !first.Attempt.IsZero() && row.Attempt != first.Attempt:
			return nil // that grant is gone; the next one was not asked about
		case err == nil && s.Revoked == row.Attempt:
			return nil
		case err == nil:
			first = row
			done, err := try(ctx, row, s)
			if done {
				return nil
			}
			last = err
		default:
			last = err
		}
		if errors.Is(last, ownership.ErrInvalid) {
			return fail(last)
		}
		if err := pace.pause(ctx, o.cfg.PollEvery); err != nil {
			return fail(ended(ctx, last))
		}
	}
}
