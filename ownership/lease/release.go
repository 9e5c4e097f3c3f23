package lease

import (
	"context"
	"fmt"
	"sync"

	"github.com/tenure-go/tenure/ownership"
)

// releaseQueue takes grants whose work has ended and gives them back, those of
// one bucket together. It runs a goroutine only while there is something to do.
type releaseQueue struct {
	mu     sync.Mutex
	queued map[string][]pendingRelease // by bucket
	order  []string
	active int
	shut   error // set when nothing more is sent
}

type pendingRelease struct {
	grant *grant
	done  func(error)
}

// push queues a grant. It is called under the tenure's lock: it only notes.
func (q *releaseQueue) push(o *Ownership, g *grant, done func(error)) {
	g.ended.Store(true)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut != nil {
		done(q.shut)
		return
	}
	if q.queued == nil {
		q.queued = map[string][]pendingRelease{}
	}
	if len(q.queued[g.bucket]) == 0 {
		q.order = append(q.order, g.bucket)
	}
	q.queued[g.bucket] = append(q.queued[g.bucket], pendingRelease{g, done})
	if q.active < concurrency {
		q.active++
		o.goroutines.Add(1)
		go q.work(o)
	}
}

// work empties the queue, a bucket at a time.
func (q *releaseQueue) work(o *Ownership) {
	defer o.goroutines.Done()
	for {
		q.mu.Lock()
		if len(q.order) == 0 {
			q.active--
			q.mu.Unlock()
			return
		}
		name := q.order[0]
		q.order = q.order[1:]
		batch := q.queued[name]
		if len(batch) > o.limits.MaxBatch {
			q.queued[name] = batch[o.limits.MaxBatch:]
			batch = batch[:o.limits.MaxBatch:o.limits.MaxBatch]
			q.order = append(q.order, name)
		} else {
			delete(q.queued, name)
		}
		q.mu.Unlock()
		o.release(o.background, name, batch)
	}
}

// close makes every later push fail with err.
func (q *releaseQueue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shut = err
}

// release gives grants of one bucket back and says so to whoever waits.
func (o *Ownership) release(ctx context.Context, name string, batch []pendingRelease) {
	bySession := map[*session][]Grant{}
	for _, p := range batch {
		g := p.grant
		bySession[g.session] = append(bySession[g.session], Grant{
			Resource: g.resource, Found: true, Token: g.token, Session: g.session.id, Attempt: g.attempt, Owner: o.ownerText})
	}
	results := map[*session]error{}
	b, err := o.buckets.take(ctx, name)
	for s, rows := range bySession {
		if err != nil {
			results[s] = fmt.Errorf("%w: %w", ownership.ErrUnknown, err)
		} else {
			results[s] = o.releaseRows(ctx, s, b, rows)
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

// releaseRows removes the rows that still have their attempt, and returns nil
// when none of them has. It goes on until that is known or the session is over,
// after which the rows name a session that is not alive. The caller has the
// bucket's lock.
func (o *Ownership) releaseRows(ctx context.Context, s *session, b *bucket, rows []Grant) error {
	var pace backoff
	var cause error
	for len(rows) > 0 && !s.isOver() {
		if ctx.Err() != nil {
			return fmt.Errorf("releasing %s: %w: %w", rows[0].Resource, ownership.ErrUnknown, errorsOr(cause, context.Cause(ctx)))
		}
		rctx, cancel := o.request(ctx)
		res := o.store.Release(rctx, b.name, rows)
		cancel()
		switch {
		case res.Outcome == ownership.Applied:
			for _, g := range rows {
				b.settle(0, Grant{Resource: g.Resource, Found: o.limits.KeepsRows})
			}
			return nil
		case res.Outcome == ownership.NotApplied && res.Err != nil:
			cause = res.Err
		default:
			// Unknown, or refused because a row is not ours any more: what still
			// names our attempt is sent again. A copy that arrives late harms
			// nobody, for no other grant ever has that attempt (DESIGN 8.3).
			if res.Outcome == ownership.Unknown {
				o.unknown("release", b.name, res.Err, ownership.Unknown)
			}
			left, err := o.stillOurs(ctx, b, rows)
			if err != nil {
				cause = err
				break
			}
			if len(left) < len(rows) || res.Outcome == ownership.NotApplied {
				pace.reset()
			}
			rows = left
			if len(rows) == 0 {
				return nil
			}
		}
		_ = pace.pause(ctx, o.timing.RequestTimeout)
	}
	return nil
}

// stillOurs returns those rows that have their attempt at the authority.
func (o *Ownership) stillOurs(ctx context.Context, b *bucket, rows []Grant) ([]Grant, error) {
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
	b.learn(state, true)
	var left []Grant
	for _, g := range rows {
		if now, _ := state.Row(g.Resource); now.Attempt == g.Attempt {
			left = append(left, g)
		} else {
			b.rows[g.Resource] = now
		}
	}
	return left, nil
}

// releaseStray frees a row that names our session with an attempt that is no
// tenure of ours.
func (o *Ownership) releaseStray(ctx context.Context, s *session, b *bucket, g Grant) error {
	if err := o.releaseRows(ctx, s, b, []Grant{g}); err != nil {
		return err
	}
	if s.isOver() {
		return errSessionOver
	}
	return nil
}

func errorsOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
