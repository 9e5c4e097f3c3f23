package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

// The workers write to one of two tables; the other has no fence.
const (
	fencedTable   = "demo_fenced"
	unfencedTable = "demo_unfenced"
)

const ledgerColumns = "shard text, entry text, value text, written_by bigint"

// createLedgers makes both. What is there already stays.
func createLedgers(ctx context.Context, session *gocql.Session, keyspace string) error {
	for _, cql := range []string{
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS "%s".%s (%s, %s bigint STATIC, %s bigint STATIC, %s uuid STATIC, PRIMARY KEY (shard, entry))`,
			keyspace, fencedTable, ledgerColumns, cassandra.FenceColumn, cassandra.FenceSeqColumn, cassandra.FenceBatchColumn),
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS "%s".%s (%s, PRIMARY KEY (shard, entry))`, keyspace, unfencedTable, ledgerColumns),
	} {
		if err := session.Query(cql).WithContext(ctx).Exec(); err != nil {
			return fmt.Errorf("creating the tables of the demo: %w", err)
		}
	}
	return session.AwaitSchemaAgreement(ctx)
}

// openLedger returns the table that this telling is about, as workers and as the
// parent see it.
func openLedger(ctx context.Context, session *gocql.Session, a access) (ledger, view, error) {
	if a.Unfenced {
		l := &unfencedLedger{session: session, table: fmt.Sprintf(`"%s".%s`, a.Keyspace, unfencedTable)}
		return l, l, nil
	}
	f, err := cassandra.NewFence(ctx, session, cassandra.FenceConfig{
		Keyspace: a.Keyspace, Table: fencedTable,
		RequestTimeout: a.patience(), // the answer may wait in a frozen worker's socket
	})
	if err != nil {
		return nil, nil, err
	}
	l := &fencedLedger{session: session, fence: f, table: fmt.Sprintf(`"%s".%s`, a.Keyspace, fencedTable)}
	return l, l, nil
}

// fencedLedger writes through a [cassandra.Fence]. It writes under the stamp and
// not under the tenure, or the library itself would refuse a write whose tenure
// is not held, and there would be nothing to see.
type fencedLedger struct {
	session *gocql.Session
	fence   *cassandra.Fence
	table   string
	writer  *cassandra.Writer
}

func (l *fencedLedger) takeOver(ctx context.Context, s fence.Stamp) (entry, fence.Verdict, error) {
	w, err := l.fence.TakeOverAs(ctx, s, resource)
	switch {
	case errors.Is(err, fence.ErrStale):
		return entry{}, fence.Stale, err
	case errors.Is(err, ownership.ErrUnknown):
		return entry{}, fence.Unknown, err
	case err != nil:
		return entry{}, fence.NotApplied, err
	}
	l.writer = w
	e, err := l.read(ctx)
	return e, fence.Accepted, err
}

func (l *fencedLedger) write(ctx context.Context, s fence.Stamp, value string) (fence.Verdict, error) {
	if l.writer == nil {
		return fence.NotApplied, errors.New("the table was not taken over")
	}
	return l.writer.Write(ctx, cassandra.CQL("INSERT INTO "+l.table+" (shard, entry, value, written_by) VALUES (?, 'last', ?, ?)",
		resource, value, int64(s.Token)))
}

func (l *fencedLedger) read(ctx context.Context) (entry, error) {
	return readEntry(ctx, l.session, gocql.Consistency(gocql.Serial), l.table, ", "+cassandra.FenceColumn)
}

func (l *fencedLedger) peek(ctx context.Context) (entry, error) {
	return readEntry(ctx, l.session, gocql.Quorum, l.table, ", "+cassandra.FenceColumn)
}

// unfencedLedger writes as most programs do.
type unfencedLedger struct {
	session *gocql.Session
	table   string
}

func (l *unfencedLedger) takeOver(ctx context.Context, _ fence.Stamp) (entry, fence.Verdict, error) {
	e, err := l.read(ctx)
	return e, fence.Accepted, err
}

func (l *unfencedLedger) write(ctx context.Context, s fence.Stamp, value string) (fence.Verdict, error) {
	// The server's timestamp, as in most drivers of other databases. With gocql's
	// own a late arrival would lose against what was written since, by luck: a
	// clock orders writes, it does not know who may make them.
	err := l.session.Query("UPDATE "+l.table+" SET value = ?, written_by = ? WHERE shard = ? AND entry = 'last'",
		value, int64(s.Token), resource).WithContext(ctx).Consistency(gocql.Quorum).DefaultTimestamp(false).Exec()
	if err != nil {
		return fence.Unknown, fmt.Errorf("%w: %w", ownership.ErrUnknown, err)
	}
	return fence.Accepted, nil
}

func (l *unfencedLedger) read(ctx context.Context) (entry, error) {
	return readEntry(ctx, l.session, gocql.Consistency(gocql.Serial), l.table, "")
}

func (l *unfencedLedger) peek(ctx context.Context) (entry, error) {
	return readEntry(ctx, l.session, gocql.Quorum, l.table, "")
}

// readEntry reads at the given level, which is SERIAL for a linearizable read:
// gocql ignores SerialConsistency on a SELECT.
func readEntry(ctx context.Context, session *gocql.Session, level gocql.Consistency, table, more string) (entry, error) {
	var (
		value     string
		by, known *int64
	)
	into := []any{&value, &by}
	if more != "" {
		into = append(into, &known)
	}
	err := session.Query("SELECT value, written_by"+more+" FROM "+table+" WHERE shard = ? LIMIT 1", resource).
		WithContext(ctx).Consistency(level).Scan(into...)
	switch {
	case errors.Is(err, gocql.ErrNotFound):
		return entry{}, nil
	case err != nil:
		return entry{}, fmt.Errorf("reading %s: %w; if it is a table of something else, choose another --keyspace", table, err)
	}
	e := entry{value: value}
	if by != nil {
		e.by = ownership.Token(*by)
	}
	if known != nil {
		e.fence = ownership.Token(*known)
	}
	return e, nil
}
