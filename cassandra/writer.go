package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

var (
	// ErrUnsettled refuses a write that comes while the outcome of the one before
	// is unknown; call [Writer.Settle] first.
	ErrUnsettled = errors.New("the write before is not settled")
	// ErrCondition says that a condition of the caller's own statements did not
	// hold; the fence did.
	ErrCondition = errors.New("a condition of the statements does not hold")
	// ErrRival says that somebody else writes to the partition under the same
	// token. The writer is of no use any more: take over again.
	ErrRival = errors.New("somebody else writes under the same token")
	// ErrFenceGone says that the fence of the partition was taken down: by
	// TRUNCATE, by a deletion of the partition past the fence, by a restored
	// backup. Take over again.
	ErrFenceGone = errors.New("the fence of the partition is gone")
)

// Writer writes to one partition under one token. A [Fence] gives it out when it
// has taken the partition over. It sends one write at a time: calls wait for each
// other. Use one Writer for each partition and token.
type Writer struct {
	f      *Fence
	stamp  fence.Stamp
	tenure *ownership.Tenure // nil: only the stamp is known
	where  string            // for errors
	route  route
	p      partition

	turn    chan struct{} // holds one token while somebody writes
	seq     int64         // number of the last write, under turn
	pending *pending      // the write whose outcome is unknown, under turn
	broken  error         // why the writer is of no use any more, under turn
	verdict fence.Verdict // of the last write, under turn
	err     error         // that came with it
}

// partition is the fence's view of one partition. Every change is sent once.
type partition interface {
	// raise installs the token over a lower one, or, with first, where there is none.
	raise(ctx context.Context, token ownership.Token, first bool) reply
	// advance counts the sequence up under the token, together with the statements,
	// if the fence is at token and last. A last of nil is null.
	advance(ctx context.Context, token ownership.Token, last *int64, next int64, batch gocql.UUID, stmts []statement) reply
	// look reads the fence, linearizably.
	look(ctx context.Context) (cells, error)
}

// cells are the columns of a fence; nil is null.
type cells struct {
	fence, seq *int64
	batch      *gocql.UUID
}

func (c *cells) destinations() map[string]any {
	return map[string]any{FenceColumn: &c.fence, FenceSeqColumn: &c.seq, FenceBatchColumn: &c.batch}
}

func (c cells) token() ownership.Token { return ownership.Token(orZero(c.fence)) }

// reply is the answer to a change: the outcome, and, when it is NotApplied
// without an error, what the fence was. A refusal tells no batch.
type reply struct {
	outcome ownership.Outcome
	now     cells
	err     error
}

// TakeOver makes the tenure's process the only one that can write to the
// partition: it installs the token there. Only then may anything be read that
// writes are to be based on, for until then the old owner's writes still land.
// key are the values of the partition key, in the order of its columns.
//
// The writer refuses locally, before anything is sent, when the tenure is not
// held. The error is a *[fence.StaleError] if a higher token is installed.
func (f *Fence) TakeOver(ctx context.Context, t *ownership.Tenure, key ...any) (*Writer, error) {
	if t == nil {
		return nil, ownership.Invalid("tenure", "nil", "must not be nil", "use TakeOverAs for a stamp alone")
	}
	return f.takeOver(ctx, fence.StampOf(t), t, key)
}

// TakeOverAs does so under a stamp that came from elsewhere, such as another
// process or a message. Nothing but the fence then stops a write that comes late.
func (f *Fence) TakeOverAs(ctx context.Context, stamp fence.Stamp, key ...any) (*Writer, error) {
	return f.takeOver(ctx, stamp, nil, key)
}

func (f *Fence) takeOver(ctx context.Context, stamp fence.Stamp, t *ownership.Tenure, key []any) (*Writer, error) {
	v, r, err := f.partition(key)
	if err = errors.Join(stamp.Validate(), err); err != nil {
		return nil, fmt.Errorf("taking over a partition of %s: %w", f.name(), err)
	}
	w := &Writer{
		f: f, stamp: stamp, tenure: t, where: fmt.Sprintf("%s partition %s", f.name(), show(key)), route: r,
		p: &served{f: f, key: v, route: r}, turn: make(chan struct{}, 1), verdict: fence.Accepted,
	}
	verdict, err := w.takeOver(ctx)
	f.report(stamp, verdict, err)
	if err != nil {
		return nil, fmt.Errorf("taking over %s: %w", w.where, err)
	}
	return w, nil
}

// show writes a partition key for people.
func show(key []any) string {
	parts := make([]string, len(key))
	for i, k := range key {
		parts[i] = fmt.Sprintf("%.60v", k)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// Stamp returns the stamp that the writer writes under.
func (w *Writer) Stamp() fence.Stamp { return w.stamp }

// Write applies the statements and counts the partition's fence up, in one atomic
// step, if the writer's token is still the highest. All must be of the writer's
// partition. They may have conditions of their own.
//
// The error is nil if and only if the verdict is Accepted. Stale comes with a
// *[fence.StaleError]: stop. NotApplied says that nothing was changed and nothing
// will be: with [ErrCondition], [ErrUnsettled], [ErrRival], [ErrFenceGone], an
// [ownership.NotHeldError], or the error of a server or driver. Unknown, an
// [ownership.ErrUnknown], says that ctx ended before the outcome was known: the
// statements may have been applied, or may yet be. [Writer.Settle] goes on asking;
// until it has an answer, the writer takes no other write.
func (w *Writer) Write(ctx context.Context, stmts ...Statement) (fence.Verdict, error) {
	return w.inTurn(ctx, fence.NotApplied, func() (fence.Verdict, error) {
		if w.pending != nil {
			return w.tell(fence.NotApplied, fmt.Errorf("%w: call Settle", ErrUnsettled))
		}
		w.verdict, w.err = w.tell(w.write(ctx, stmts))
		return w.verdict, w.err
	})
}

// Settle returns the verdict of the last write. If that is unknown it finds it
// out, which ends with ctx. It may send the statements again, while the tenure is
// held, which never applies them twice; after a few tries it makes sure instead
// that they are not applied. Before the first write it is Accepted.
func (w *Writer) Settle(ctx context.Context) (fence.Verdict, error) {
	return w.inTurn(ctx, fence.Unknown, func() (fence.Verdict, error) {
		if w.pending != nil {
			w.verdict, w.err = w.tell(w.settle(ctx))
		}
		return w.verdict, w.err
	})
}

// tell completes an error, and lets the hooks know.
func (w *Writer) tell(v fence.Verdict, err error) (fence.Verdict, error) {
	if err != nil {
		err = fmt.Errorf("writing to %s: %w", w.where, err)
	}
	w.f.report(w.stamp, v, err)
	return v, err
}

// Query returns a query that reads linearizably, on the way that the writer's own
// requests take. It must stay within one partition. The caller executes it; it
// ends with ctx as far as gocql sees to that.
func (w *Writer) Query(ctx context.Context, cql string, args ...any) *gocql.Query {
	return w.f.session.Query(cql, args...).
		WithContext(context.WithValue(ctx, tripKey{}, &trip{route: w.route})).
		Consistency(gocql.Consistency(w.f.serial)).
		PageSize(0) // pages are not one snapshot
}

// inTurn runs f when nobody else writes. late is the verdict if ctx ends before:
// a call that only asks may not say that nothing was applied.
func (w *Writer) inTurn(ctx context.Context, late fence.Verdict, f func() (fence.Verdict, error)) (fence.Verdict, error) {
	select {
	case w.turn <- struct{}{}: // even if ctx has ended: there is nothing to wait for
	default:
		select {
		case w.turn <- struct{}{}:
		case <-ctx.Done():
			err := endOf(ctx)
			if late == fence.Unknown {
				err = unknown(nil, err)
			}
			return late, fmt.Errorf("writing to %s: waiting for the write before: %w", w.where, err)
		}
	}
	defer func() { <-w.turn }()
	return f()
}

// held reports why the tenure does not permit a send, if it does not.
func (w *Writer) held() error {
	if w.tenure == nil {
		return nil
	}
	return w.tenure.Ensure(0)
}

// served is a partition on a real server.
type served struct {
	f     *Fence
	key   values
	route route
}

// with returns the values of the key and more.
func (s *served) with(more values) values {
	v := values{}
	for _, m := range []values{s.key, more} {
		for k, x := range m {
			v[k] = x
		}
	}
	return v
}

func (s *served) raise(ctx context.Context, token ownership.Token, first bool) reply {
	t := s.f.texts.raise
	if first {
		t = s.f.texts.found
	}
	return s.change(ctx, t.bind(s.with(values{FenceColumn: int64(token), "above": int64(token)})))
}

func (s *served) advance(ctx context.Context, token ownership.Token, last *int64, next int64, batch gocql.UUID, stmts []statement) reply {
	guard := s.f.texts.advance.bind(s.with(values{
		FenceBatchColumn: batch, "next": next, "expected": int64(token), "last": last,
	}))
	return s.change(ctx, append([]statement{guard}, stmts...)...)
}

func (s *served) change(ctx context.Context, stmts ...statement) reply {
	ctx, cancel := context.WithTimeout(ctx, s.f.cfg.RequestTimeout)
	defer cancel()
	a, err := change(ctx, s.f.client, s.route, (*cells).destinations, stmts...)
	r := reply{outcome: ownership.NotApplied, err: explainInput(err)}
	switch {
	case err != nil:
		r.outcome = classify(err)
	case a.applied:
		r.outcome = ownership.Applied
	case len(a.rows) > 0:
		r.now = a.rows[0] // the fence is static: every row has it
	}
	return r
}

func (s *served) look(ctx context.Context) (cells, error) {
	ctx, cancel := context.WithTimeout(ctx, s.f.cfg.RequestTimeout)
	defer cancel()
	a, err := read(ctx, s.f.client, s.route, gocql.Consistency(s.f.serial), (*cells).destinations, s.f.texts.look.bind(s.key))
	if err != nil || len(a.rows) == 0 {
		return cells{}, explainInput(err)
	}
	return a.rows[0], nil
}

// pace waits between tries: longer each time, and never past ctx.
type pace struct{ next time.Duration }

func (p *pace) wait(ctx context.Context) error {
	p.next = min(max(2*p.next, 20*time.Millisecond), time.Second)
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return endOf(ctx)
	}
}
