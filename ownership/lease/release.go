package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tenure-go/tenure/ownership"
)

// releaseQueue takes grants whose work has ended and gives them back, those of
// one bucket together, and one batch of a bucket at a time: a bucket that does not
// answer holds up no other. It runs goroutines only while there is something to do.
type releaseQueue struct {
	mu      sync.Mutex
	queued  map[string][]pendingRelease // by bucket
	ready   []string                    // buckets that have something queued and are not busy
	busy    map[string]bool
	workers int
	shut    error // set when nothing more is sent
}

type pendingRelease struct {
	grant *grant
	done  func(error)
}

// push queues a grant; it does not wait.
func (q *releaseQueue) push(o *Ownership, g *grant, done func(error)) {
	g.leaving.Store(true)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut != nil {
		done(q.shut)
		return
	}
	if q.queued == nil {
		q.queued, q.busy = map[string][]pendingRelease{}, map[string]bool{}
	}
	if len(q.queued[g.bucket]) == 0 && !q.busy[g.bucket] {
		q.ready = append(q.ready, g.bucket)
	}
	q.queued[g.bucket] = append(q.queued[g.bucket], pendingRelease{g, done})
	if q.workers < concurrency && len(q.ready) > 0 {
		q.workers++
		o.goroutines.Go(func() { q.work(o) })
	}
}

// work empties the queue, a bucket at a time.
func (q *releaseQueue) work(o *Ownership) {
	for {
		name, batch := q.next(o.limits.MaxBatch)
		if batch == nil {
			return
		}
		o.release(o.background, name, batch)
		q.mu.Lock()
		delete(q.busy, name)
		if len(q.queued[name]) > 0 {
			q.ready = append(q.ready, name)
		}
		q.mu.Unlock()
	}
}

// next takes a batch of a bucket, or, if there is none, signs the worker off.
func (q *releaseQueue) next(limit int) (bucket string, batch []pendingRelease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		q.workers--
		return "", nil
	}
	bucket = q.ready[0]
	q.ready = q.ready[1:]
	q.busy[bucket] = true
	batch = q.queued[bucket]
	if len(batch) <= limit {
		delete(q.queued, bucket)
		return bucket, batch
	}
	q.queued[bucket] = batch[limit:]
	return bucket, batch[:limit:limit]
}

// close makes every later push fail with err.
func (q *releaseQueue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shut = err
}

// release gives grants of one bucket back and says so to whoever waits.
func (o *Ownership) release(ctx context.Context, name string, batch []pendingRelease) {
	rows := map[*session][]Grant{}
	for _, p := range batch {
		rows[p.grant.session] = append(rows[p.grant.session], p.grant.row())
	}
	results := map[*session]error{}
	b, err := o.buckets.take(ctx, name)
	for s, of := range rows {
		if err != nil {
			results[s] = fmt.Errorf("%w: %w", ownership.ErrUnknown, err)
		} else {
			results[s] = o.releaseRows(ctx, s, b, of)
		}
	}
	if err == nil {
		o.buckets.give(b)
	}
	for _, p := range batch {
		p.grant.session.discard(p.grant)
		o.vacate(p.grant.slot)
		p.done(results[p.grant.session])
	}
}

// releaseRows removes rows of the session by their attempts, and returns nil when
// they are known to be gone: removed, or, since the authority has refused the
// session, nobody's. It goes on until that is known or the session is over. The
// caller has the bucket's lock, and the slots of the resources.
func (o *Ownership) releaseRows(ctx context.Context, s *session, b *bucket, rows []Grant) error {
	d := doubt{o: o, op: "release", on: b.name}
	var pace backoff
	var cause error
	for {
		switch over := s.ended(); {
		case errors.Is(over, ownership.ErrRefused):
			d.ends(ownership.Applied)
			return nil
		case over != nil:
			return fmt.Errorf("releasing %s: %w: %w", rows[0].Resource, ownership.ErrUnknown, errors.Join(over, cause))
		case ctx.Err() != nil:
			return fmt.Errorf("releasing %s: %w: %w", rows[0].Resource, ownership.ErrUnknown, errors.Join(context.Cause(ctx), cause))
		}
		rctx, cancel := o.request(ctx)
		res := o.store.Release(rctx, b.name, rows)
		cancel()
		cause = res.Err
		switch {
		case res.Outcome == ownership.Applied:
			for _, g := range rows {
				b.note(g.Resource, true, o.limits.KeepsRows)
			}
			d.ends(ownership.Applied)
			return nil
		case res.Outcome == ownership.NotApplied && res.Err != nil: // nothing was learned
		default:
			// Unknown, or refused because a row is not ours any more: what is still
			// ours is sent again. A copy that arrives late harms nobody, for no
			// other grant ever has that attempt (DESIGN 8.3).
			if res.Outcome == ownership.Unknown {
				d.arises(res.Err)
			}
			left, err := o.stillOurs(ctx, s, b, rows)
			if err != nil {
				cause = err
				break
			}
			if len(left) == 0 {
				d.ends(ownership.Applied)
				return nil
			}
			if len(left) < len(rows) {
				pace.reset()
			}
			rows = left
		}
		_ = pace.pause(ctx, o.timing.RequestTimeout)
	}
}

// stillOurs returns those rows that have their attempt at the authority. A row
// that names our session with any other attempt is ours to remove as well: no
// tenure and no claim of ours can be there while this grant has the slot.
func (o *Ownership) stillOurs(ctx context.Context, s *session, b *bucket, rows []Grant) ([]Grant, error) {
	names := make([]string, len(rows))
	for i, g := range rows {
		names[i] = g.Resource
	}
	rctx, cancel := o.request(ctx)
	defer cancel()
	state, err := o.store.Grants(rctx, b.name, names)
	if err != nil {
		return nil, fmt.Errorf("reading back the release in bucket %s: %w", b.name, err)
	}
	b.known, b.fence = true, state.Fence
	var left []Grant
	for _, g := range rows {
		now := state.Rows[g.Resource]
		b.note(g.Resource, now.Free(), now.Found)
		if !now.Free() && (now.Attempt == g.Attempt || now.Session == s.id) {
			left = append(left, now)
		}
	}
	return left, nil
}
