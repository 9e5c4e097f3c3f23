package cassandra

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
	"github.com/tenure-go/tenure/ownership/lease"
)

// The rules that this file follows. TestSettle runs it against every order of
// lost requests, lost answers and late arrivals:
//
//  1. The sequence of a partition only grows, by one with every write, under
//     whatever token. So of all batches that expect n at most one is applied, and
//     its id stays readable until the next one is.
//  2. A batch carries the token, so none under a lower token is applied once a
//     higher one is installed.
//  3. What was sent and not answered may still arrive, so it is not settled by a
//     read that does not show it. It is settled when its id is read, or when the
//     sequence has moved on without it: then its condition never holds again.
//     Moving the sequence on with nothing in the batch is therefore how a write
//     is given up.

// pending is a write whose outcome is unknown.
type pending struct {
	last  int64 // the sequence that it expects
	batch gocql.UUID
	stmts []statement
	sent  int
	cause error // of the last failure
	// giveUp: do not send it again, but move the sequence on, as the batch void.
	giveUp bool
	void   gocql.UUID
}

// maxSends is how often a write is sent before it is given up.
const maxSends = 3

// takeOver installs the token and reads where the sequence stands.
func (w *Writer) takeOver(ctx context.Context) (fence.Verdict, error) {
	var (
		pace   pace
		first  bool  // there is no fence yet
		unsure error // of a copy that may have installed the token, or may yet
	)
	// Nothing that happens after such a copy makes it "not applied".
	fail := func(err error) (fence.Verdict, error) {
		if unsure != nil {
			return fence.Unknown, unknown(unsure, err)
		}
		return fence.NotApplied, err
	}
	if ctx.Err() != nil {
		return fence.NotApplied, endOf(ctx)
	}
	for {
		if err := w.held(); err != nil {
			return fail(err)
		}
		r := w.p.raise(ctx, w.stamp.Token, first)
		switch {
		case r.outcome == ownership.Applied && first:
			w.seq = 0
			return fence.Accepted, nil
		case r.outcome == ownership.Applied:
			return w.readSequence(ctx, false)
		case r.outcome == ownership.NotApplied && r.err == nil:
			switch now := r.now.token(); {
			case r.now.fence == nil:
				first = true
			case now > w.stamp.Token:
				return fence.Stale, w.stale(now)
			case now == w.stamp.Token:
				return w.readSequence(ctx, true)
			default: // lower, or another form of none: the next try looks again
				first = false
			}
			continue
		}
		if final(r) {
			return fail(r.err)
		}
		if r.outcome == ownership.Unknown {
			unsure = r.err
		}
		if err := pace.wait(ctx); err != nil {
			return fence.Unknown, unknown(r.err, err)
		}
	}
}

// final reports whether a request would be refused again, unseen, for the same
// reason: bad CQL, a missing permission, a closed session.
func final(r reply) bool {
	var notSent *notSentError
	return r.outcome == ownership.NotApplied && r.err != nil && blameFor(r.err) == innocent &&
		!errors.Is(r.err, gocql.ErrNoConnections) && !errors.As(r.err, &notSent)
}

// readSequence finds out where the sequence stands under our token. With again,
// the token may have been installed before, by an earlier writer of this process:
// what that one has under way is then shut out, by moving the sequence on. The
// token is installed, so no failure from here on is "not applied".
func (w *Writer) readSequence(ctx context.Context, again bool) (fence.Verdict, error) {
	var pace pace
	batch := newBatch()
	for {
		now, err := w.p.look(ctx)
		if err == nil {
			switch {
			case now.fence == nil || now.token() < w.stamp.Token:
				return fence.Unknown, unknown(nil, ErrFenceGone)
			case now.token() > w.stamp.Token:
				return fence.Stale, w.stale(now.token())
			case now.seq != nil && (!again || now.batch != nil && *now.batch == batch):
				w.seq = *now.seq
				return fence.Accepted, nil
			}
			var next int64
			if now.seq != nil {
				next = *now.seq + 1
			}
			r := w.p.advance(ctx, w.stamp.Token, now.seq, next, batch, nil)
			if r.outcome == ownership.Applied {
				w.seq = next
				return fence.Accepted, nil
			}
			if final(r) {
				return fence.Unknown, unknown(nil, r.err)
			}
			err = r.err
		}
		if waited := pace.wait(ctx); waited != nil {
			return fence.Unknown, unknown(err, waited)
		}
	}
}

// write sends one batch, and settles it if its outcome is unknown.
func (w *Writer) write(ctx context.Context, stmts []Statement) (fence.Verdict, error) {
	if w.broken != nil {
		return w.brokenVerdict(), w.broken
	}
	if err := w.held(); err != nil {
		return fence.NotApplied, err // without a look at the server
	}
	if ctx.Err() != nil {
		return fence.NotApplied, endOf(ctx)
	}
	batch, err := w.examineStatements(ctx, stmts)
	if err != nil {
		return fence.NotApplied, err
	}
	return w.commit(ctx, batch)
}

// commit sends the statements as one batch.
func (w *Writer) commit(ctx context.Context, stmts []statement) (fence.Verdict, error) {
	if w.broken != nil {
		return w.brokenVerdict(), w.broken
	}
	if err := w.held(); err != nil { // looking at the statements may have taken a while
		return fence.NotApplied, err
	}
	p := &pending{last: w.seq, batch: newBatch(), stmts: stmts, sent: 1, void: newBatch()}
	r := w.p.advance(ctx, w.stamp.Token, &p.last, p.last+1, p.batch, p.stmts)
	switch {
	case r.outcome == ownership.Applied:
		w.seq = p.last + 1
		return fence.Accepted, nil
	case r.outcome == ownership.NotApplied && r.err != nil:
		return fence.NotApplied, r.err
	case r.outcome == ownership.NotApplied:
		return w.refused(r.now)
	}
	w.pending, p.cause = p, r.err
	return w.settle(ctx)
}

// refused judges a batch that was sent once and refused.
func (w *Writer) refused(now cells) (fence.Verdict, error) {
	switch token := now.token(); {
	case token > w.stamp.Token:
		return w.breakWith(fence.Stale, w.stale(token))
	case now.fence == nil || token < w.stamp.Token:
		return w.breakWith(fence.NotApplied, ErrFenceGone)
	case now.seq == nil || *now.seq != w.seq:
		return w.breakWith(fence.NotApplied, ErrRival)
	}
	return fence.NotApplied, ErrCondition
}

// settle finds out what became of the pending write.
func (w *Writer) settle(ctx context.Context) (fence.Verdict, error) {
	var pace pace
	for {
		now, err := w.p.look(ctx)
		if err == nil {
			if done, verdict, err := w.judge(now); done {
				w.pending = nil
				return verdict, err
			}
			w.again(ctx) // what it did shows in the next look
			err = w.pending.cause
		}
		if waited := pace.wait(ctx); waited != nil {
			if err == nil {
				err = w.pending.cause
			}
			return fence.Unknown, unknown(err, waited)
		}
	}
}

// judge decides by what a linearizable read shows of the fence.
func (w *Writer) judge(now cells) (done bool, verdict fence.Verdict, err error) {
	p := w.pending
	var seq int64 = -1
	if now.seq != nil {
		seq = *now.seq
	}
	settled := func(v fence.Verdict, err error) (bool, fence.Verdict, error) { return true, v, err }
	token := now.token()
	switch {
	case now.batch != nil && *now.batch == p.batch:
		w.seq = p.last + 1
		if token > w.stamp.Token {
			w.broken = w.stale(token) // applied, but the next one will not be
		}
		return settled(fence.Accepted, nil)
	case now.fence == nil || token < w.stamp.Token || seq < p.last:
		return settled(fence.Unknown, w.unknownForGood(ErrFenceGone))
	case seq == p.last && token == w.stamp.Token:
		return false, fence.Unknown, nil // it may yet arrive
	case seq > p.last+1:
		why := ErrRival
		if token > w.stamp.Token {
			why = w.stale(token)
		}
		return settled(fence.Unknown, w.unknownForGood(why))
	case token > w.stamp.Token: // seq is last, or one further by another batch
		return settled(w.breakWith(fence.Stale, w.stale(token)))
	case now.batch != nil && *now.batch == p.void: // nothing was applied, and nothing will be
		w.seq = p.last + 1
		return settled(fence.NotApplied, p.cause)
	}
	return settled(w.breakWith(fence.NotApplied, ErrRival))
}

// again sends the pending write once more, or gives it up.
func (w *Writer) again(ctx context.Context) {
	p := w.pending
	if err := w.held(); err != nil && !p.giveUp {
		p.giveUp, p.cause = true, err // no new effects from a tenure that is over or in doubt
	}
	p.giveUp = p.giveUp || p.sent >= maxSends
	stmts, batch := p.stmts, p.batch
	if p.giveUp {
		stmts, batch = nil, p.void
	}
	p.sent++
	r := w.p.advance(ctx, w.stamp.Token, &p.last, p.last+1, batch, stmts)
	switch {
	case r.err != nil && !p.giveUp:
		p.cause = r.err
		p.giveUp = final(r)
	case r.outcome == ownership.NotApplied && r.err == nil && !p.giveUp && r.now.token() == w.stamp.Token && orZero(r.now.seq) == p.last:
		// Refused by a condition of its own, which may not have held when the first
		// copy was sent, or may hold when that arrives.
		p.cause, p.giveUp = ErrCondition, true
	}
}

// unknownForGood is the error of a write that others have covered up.
func (w *Writer) unknownForGood(why error) error {
	w.broken = why
	return fmt.Errorf("%w, for good: %w", ownership.ErrUnknown, why)
}

// breakWith makes the writer refuse everything from now on.
func (w *Writer) breakWith(v fence.Verdict, err error) (fence.Verdict, error) {
	w.broken = err
	return v, err
}

// brokenVerdict is that of a write which is not sent, because the writer is of
// no use any more.
func (w *Writer) brokenVerdict() fence.Verdict {
	if errors.Is(w.broken, fence.ErrStale) {
		return fence.Stale
	}
	return fence.NotApplied
}

func (w *Writer) stale(current ownership.Token) error {
	return &fence.StaleError{Resource: w.where, Token: w.stamp.Token, Current: current}
}

// unknown is the error of an outcome that was not found out in time.
func unknown(cause, ended error) error {
	if cause == nil {
		return fmt.Errorf("%w: %w", ownership.ErrUnknown, ended)
	}
	return fmt.Errorf("%w: %w: %w", ownership.ErrUnknown, ended, cause)
}

// newBatch returns the id of a batch.
func newBatch() gocql.UUID { return gocql.UUID(lease.NewID()) }
