package cassandra

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocql/gocql"
)

// client sends statements over a gocql session and reads the answers. It keeps
// the promises that the driver does not:
//
//   - a conditional statement is sent once, whatever retry policy, idempotence or
//     speculation the session has
//   - a read is linearizable if it is meant to be: gocql ignores
//     SerialConsistency on a SELECT, so SERIAL goes into Consistency
//   - columns are found by name, and null is told from zero
//   - every call returns when its context ends. gocql itself blocks on a full
//     socket and on the preparation of a statement that another call began. What
//     it goes on with in the background ends by its own timeouts
//   - a panic of the driver, or of a marshaler given to it, is an error
type client struct {
	session *gocql.Session
	serial  gocql.SerialConsistency
	commit  gocql.Consistency
}

// newClient returns a client whose conditional statements run at serial.
func newClient(session *gocql.Session, serial gocql.SerialConsistency) *client {
	c := &client{session: session, serial: serial, commit: gocql.Quorum}
	if serial == gocql.LocalSerial {
		c.commit = gocql.LocalQuorum
	}
	return c
}

// answer is what a statement returned.
type answer[R any] struct {
	applied bool // of a conditional statement
	rows    []R
	columns map[string]bool // that were returned
	host    string          // id of the coordinator, where it is told
}

// destinations says where the columns of a row go, by name. Each is a pointer to
// a pointer, which stays nil where the column is null.
type destinations[R any] func(*R) map[string]any

// change sends conditional statements, several as one batch, which the server
// applies together or not at all. They belong to one partition of one table.
func change[R any](ctx context.Context, c *client, r route, to destinations[R], stmts ...statement) (answer[R], error) {
	for _, s := range stmts {
		if err := s.checkTTL(); err != nil {
			return answer[R]{}, &notSentError{err}
		}
	}
	return send(ctx, r, func(ctx context.Context) (answer[R], error) {
		if len(stmts) == 1 {
			return collect(c.conditional(ctx, stmts[0]), to, true)
		}
		return collectBatch(c.session, c.batch(ctx, stmts), to)
	})
}

// read sends a SELECT at the given level.
func read[R any](ctx context.Context, c *client, r route, level gocql.Consistency, to destinations[R], s statement) (answer[R], error) {
	return send(ctx, r, func(ctx context.Context) (answer[R], error) {
		q := c.session.Query(s.cql, s.args...).WithContext(ctx).
			Consistency(level).
			RetryPolicy(nil). // the caller decides, and knows what a stale answer costs
			PageSize(0).      // pages of a SERIAL read are not one snapshot
			NoSkipMetadata()
		return collect(q.Iter(), to, false)
	})
}

func (c *client) conditional(ctx context.Context, s statement) *gocql.Iter {
	return c.session.Query(s.cql, s.args...).WithContext(ctx).
		Consistency(c.commit).
		SerialConsistency(c.serial).
		RetryPolicy(nil). // with one, gocql repeats a CAS and hides that the first was applied
		Idempotent(false).
		SetSpeculativeExecutionPolicy(&gocql.NonSpeculativeExecution{}).
		DefaultTimestamp(false). // the ballot is the timestamp
		NoSkipMetadata().        // the prepared metadata of a CAS has no columns
		Iter()
}

func (c *client) batch(ctx context.Context, stmts []statement) *gocql.Batch {
	b := c.session.NewBatch(gocql.UnloggedBatch).WithContext(ctx).
		SerialConsistency(c.serial).
		RetryPolicy(nil).
		SpeculativeExecutionPolicy(&gocql.NonSpeculativeExecution{}).
		DefaultTimestamp(false)
	b.Cons = c.commit
	for _, s := range stmts {
		b.Query(s.cql, s.args...)
	}
	return b
}

// send runs f under ctx and the route, and tells the host policy how the
// coordinator did: gocql itself hides from it a request that ran into the end of
// its context, which is how a frozen node shows.
func send[T any](ctx context.Context, r route, f func(context.Context) (T, error)) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, &notSentError{endOf(ctx)}
	}
	t := &trip{route: r}
	v, err := guard(context.WithValue(ctx, tripKey{}, t), f)
	t.report(err)
	return v, err
}

// endOf is the error of a context that has ended, with its cause.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// guard returns when f does or when ctx ends.
func guard[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o.err = fmt.Errorf("the driver panicked: %v", p)
			}
			done <- o
		}()
		o.v, o.err = f(ctx)
	}()
	select {
	case o := <-done:
		return o.v, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-done: // it came in the same moment: better than nothing
		return o.v, o.err
	default:
		var none T
		return none, endOf(ctx)
	}
}

const appliedColumn = "[applied]"

var errNoApplied = errors.New("the answer does not say whether the statement was applied")

// collect reads all rows of iter by column name.
func collect[R any](iter *gocql.Iter, to destinations[R], conditional bool) (answer[R], error) {
	a := answer[R]{columns: map[string]bool{}}
	if host := iter.Host(); host != nil {
		a.host = host.HostID()
	}
	columns := iter.Columns()
	slots := 0
	for _, c := range columns {
		a.columns[c.Name] = true
		if tuple, ok := c.TypeInfo.(gocql.TupleTypeInfo); ok {
			slots += len(tuple.Elems) // gocql wants one for each element, even to skip them
		} else {
			slots++
		}
	}
	for {
		var row R
		var applied *bool
		byName := to(&row)
		if conditional {
			byName[appliedColumn] = &applied
		}
		into := make([]any, slots)
		for i, c := range columns {
			into[i] = byName[c.Name] // nil skips it
		}
		if !iter.Scan(into...) {
			break
		}
		if conditional && applied == nil {
			return a, errNoApplied
		}
		a.applied = conditional && *applied
		a.rows = append(a.rows, row)
	}
	if err := iter.Close(); err != nil {
		return a, err
	}
	if conditional && len(a.rows) == 0 {
		return a, errNoApplied
	}
	return a, nil
}

// collectBatch sends a batch. gocql gives out its answer only with the first row
// scanned, into a map that it fills up with columns it was not asked for.
func collectBatch[R any](session *gocql.Session, b *gocql.Batch, to destinations[R]) (answer[R], error) {
	var first R
	applied, iter, err := session.MapExecuteBatchCAS(b, to(&first)) // panics when the scan fails: see guard
	if err != nil {
		return answer[R]{}, err
	}
	columns := make(map[string]bool)
	for _, c := range iter.Columns() {
		columns[c.Name] = true
	}
	if applied {
		return answer[R]{applied: true, columns: columns}, iter.Close()
	}
	rest, err := collect(iter, to, false)
	return answer[R]{rows: append([]R{first}, rest.rows...), columns: columns}, err
}
