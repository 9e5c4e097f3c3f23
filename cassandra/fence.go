package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2"
	"github.com/scylladb/gocqlx/v2/qb"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

// FenceConfig describes a table that is to be fenced.
type FenceConfig struct {
	// Keyspace and Table name it as the server stores them: without quotes, and in
	// lower case unless they were created in quotes.
	Keyspace, Table string
	// Serial: see [Config]. It must be the same for every process that writes to
	// the table, and need not be that of the ownership tables.
	Serial gocql.SerialConsistency
	// DataCenter: see [Config]. Like Serial it must be the same for every writer.
	DataCenter string
	// RequestTimeout bounds each request; what takes longer is read back and sent
	// again, through another node. Default 2 s.
	RequestTimeout time.Duration
	// Hooks hear of every verdict: see [fence.HookVerdict].
	Hooks ownership.Hooks
}

// Fence guards one table of the user's: every partition keeps the highest token
// that it has accepted, and a write under a lower one changes nothing, however
// late it comes. A partition is fenced once somebody has taken it over.
//
// It needs three static columns in the table ([AddColumns]), and that nobody
// writes to fenced partitions past it: a plain write carries the client's clock
// and can hide accepted writes, and TRUNCATE or the deletion of a partition takes
// the fence down.
//
// A Fence is safe for concurrent use.
type Fence struct {
	*client
	cfg   FenceConfig
	table fencedTable
	keys  []string // the partition key's columns
	types []gocql.TypeInfo
	texts fenceTexts
}

// AddColumns returns the statement that adds the fence's columns to a table. They
// are static, so the table needs a clustering column. Names are as in
// [FenceConfig].
func AddColumns(keyspace, table string) string {
	return fmt.Sprintf("ALTER TABLE %s.%s ADD (%s bigint STATIC, %s bigint STATIC, %s uuid STATIC)",
		quote(keyspace), quote(table), FenceColumn, FenceSeqColumn, FenceBatchColumn)
}

// fenceTexts are the statements on the fence's own columns.
type fenceTexts struct {
	raise, found, advance, look template
}

func newFenceTexts(table string, keys []string) fenceTexts {
	where := make([]qb.Cmp, len(keys))
	for i, k := range keys {
		where[i] = qb.EqNamed(quote(k), keyParam(i))
	}
	return fenceTexts{
		// The number of the last write survives a takeover, so that the old owner
		// can still find out what became of its last write.
		raise: built(qb.Update(table).Set(FenceColumn).Where(where...).If(qb.LtNamed(FenceColumn, "above"))),
		// fence < ? is false on null, so the first takeover of a partition has a form of its own.
		found: built(qb.Update(table).Set(FenceColumn).SetLit(FenceSeqColumn, "0").Where(where...).If(qb.EqLit(FenceColumn, "null"))),
		advance: built(qb.Update(table).SetNamed(FenceSeqColumn, "next").Set(FenceBatchColumn).Where(where...).
			If(qb.EqNamed(FenceColumn, "expected"), qb.EqNamed(FenceSeqColumn, "last"))),
		look: built(qb.Select(table).Columns(FenceColumn, FenceSeqColumn, FenceBatchColumn).Where(where...).Limit(1)),
	}
}

func keyParam(i int) string { return fmt.Sprintf("key_%d", i) }

// NewFence looks at the table and returns its fence. All faults, of cfg or of the
// table, are reported at once.
func NewFence(ctx context.Context, session *gocql.Session, cfg FenceConfig) (*Fence, error) {
	if cfg.Serial == 0 {
		cfg.Serial = gocql.Serial
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 2 * time.Second
	}
	if err := cfg.validate(session); err != nil {
		return nil, fmt.Errorf("cassandra.NewFence: %w", err)
	}
	f := &Fence{client: newClient(session, cfg.Serial), cfg: cfg}
	if err := f.examine(ctx); err != nil {
		return nil, fmt.Errorf("cassandra.NewFence: %w", err)
	}
	return f, nil
}

func (c FenceConfig) validate(session *gocql.Session) error {
	faults := []error{Config{Keyspace: c.Keyspace, Serial: c.Serial, DataCenter: c.DataCenter}.validateStore(session)}
	if !keyspaceName.MatchString(c.Table) {
		faults = append(faults, ownership.Invalid("Table", fmt.Sprintf("%.60q", c.Table), "must be 1 to 48 letters, digits and underscores", "name the table to fence"))
	}
	switch c.Table {
	case SessionTable, OwnershipTable, MetaTable:
		faults = append(faults, ownership.Invalid("Table", fmt.Sprintf("%q", c.Table), "must be a table of yours", "that one is kept by this package"))
	}
	if c.RequestTimeout < time.Millisecond || c.RequestTimeout > ownership.MaxTTL {
		faults = append(faults, ownership.Invalid("RequestTimeout", c.RequestTimeout, fmt.Sprintf("must be from 1ms to %v", ownership.MaxTTL), "leave it 0 for 2s"))
	}
	return errors.Join(faults...)
}

// fenceColumns are what the table must have.
var fenceColumns = map[string]columnInfo{
	FenceColumn: {"static", "bigint"}, FenceSeqColumn: {"static", "bigint"}, FenceBatchColumn: {"static", "uuid"},
}

// examine reads the table's shape and refuses what cannot be fenced.
func (f *Fence) examine(ctx context.Context) error {
	a := &admin{client: f.client, cfg: Config{Keyspace: f.cfg.Keyspace, Serial: f.cfg.Serial, DataCenter: f.cfg.DataCenter}, timeout: f.cfg.RequestTimeout}
	name := "table " + f.name()
	t, found, err := a.lookTable(ctx, f.cfg.Keyspace, f.cfg.Table, version{})
	if err != nil {
		return err
	}
	if !found {
		if k, err := a.lookKeyspace(ctx); err != nil {
			return err
		} else if !k.found {
			return ownership.Invalid("keyspace "+f.cfg.Keyspace, "missing", "must exist", "create it, or correct FenceConfig.Keyspace")
		}
		return ownership.Invalid(name, "missing", "must exist", "create it, with the columns that AddColumns names")
	}
	var faults []error
	for _, c := range slices.Sorted(maps.Keys(fenceColumns)) {
		want, got := fenceColumns[c], t.columns[c]
		switch {
		case got == columnInfo{}:
			faults = append(faults, ownership.Invalid(name, "without a column "+c, fmt.Sprintf("must have it, %s %s", want.kind, want.cql), "run the statement of AddColumns"))
		case got != want:
			faults = append(faults, ownership.Invalid("column "+c+" of "+name, got.kind+" "+got.cql, fmt.Sprintf("must be %s %s", want.kind, want.cql), "the fence needs this name for itself: rename yours"))
		}
	}
	if len(t.clustering) == 0 {
		faults = append(faults, ownership.Invalid(name, "without a clustering column", "must have one, for the fence's columns are static", "add one to its primary key"))
	}
	if t.defaultTTL != 0 {
		faults = append(faults, ownership.Invalid("default_time_to_live of "+name, t.defaultTTL, "must be 0, or the fence would expire", "set TTLs on the statements that need one"))
	}
	var r Report
	a.checkPolicy(&r, a.policy(ctx))
	if err := errors.Join(append(faults, r.Err())...); err != nil {
		return err
	}
	f.keys, f.table = t.partition, fencedTable{keyspace: f.cfg.Keyspace, name: f.cfg.Table, clustering: t.clustering}
	f.texts = newFenceTexts(quote(f.cfg.Keyspace)+"."+quote(f.cfg.Table), f.keys)
	for range tries {
		try, cancel := context.WithTimeout(ctx, f.cfg.RequestTimeout)
		var args []gocql.ColumnInfo
		if args, err = f.prepare(try, route{}, f.texts.look.cql); err == nil {
			for _, c := range args {
				f.types = append(f.types, c.TypeInfo)
			}
		}
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return explainInput(err)
}

func (f *Fence) name() string { return f.cfg.Keyspace + "." + f.cfg.Table }

// errPrepared stops gocql between preparing a statement and sending it.
var errPrepared = errors.New("prepared")

// prepare lets the server look at a statement without executing it, and returns
// what values it takes. The driver keeps the prepared statement for later.
func (f *Fence) prepare(ctx context.Context, r route, cql string) ([]gocql.ColumnInfo, error) {
	return send(ctx, r, func(ctx context.Context) ([]gocql.ColumnInfo, error) {
		var args []gocql.ColumnInfo
		b := f.session.NewBatch(gocql.UnloggedBatch).WithContext(ctx).RetryPolicy(nil)
		b.Bind(cql, func(q *gocql.QueryInfo) ([]any, error) {
			args = q.Args
			return nil, errPrepared
		})
		err := f.session.ExecuteBatch(b)
		if errors.Is(err, errPrepared) {
			err = nil
		}
		return args, err
	})
}

// Statement is an INSERT, UPDATE or DELETE on a fenced table: see [CQL] and
// [Bound].
type Statement struct {
	text string
	args []any
	err  error
}

// CQL is a statement with its values, as gocql takes them.
func CQL(text string, args ...any) Statement { return Statement{text: text, args: args} }

// Bound is the statement of a gocqlx query that has its values bound, by
// BindStruct or BindMap for example. The query itself is not executed, and need
// not be: consistency and the like are the fence's business.
func Bound(q *gocqlx.Queryx) Statement {
	if q == nil || q.Query == nil {
		return Statement{err: ownership.Invalid("query", "nil", "must not be nil", "")}
	}
	return Statement{text: q.Statement(), args: q.Values(), err: q.Err()}
}

// check looks at a statement as far as that is possible without the server.
func (s Statement) check(t fencedTable) error {
	if s.err != nil {
		return &inputError{s.err}
	}
	return checkStatement(s.text, t)
}

// examineStatements has the server look at the statements of a write, so that
// what it would refuse is known before anything is sent: afterwards, an error of
// the driver's own would count as unknown. It returns them with their values as
// they are sent, however often, whatever the caller does with its own meanwhile.
func (w *Writer) examineStatements(ctx context.Context, stmts []Statement) ([]statement, error) {
	if len(stmts) == 0 {
		return nil, ownership.Invalid("statements", "none", "must be at least one", "")
	}
	var faults []error
	for _, s := range stmts {
		faults = append(faults, s.check(w.f.table))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	batch := make([]statement, len(stmts))
	for i, s := range stmts {
		args, err := w.examineValues(ctx, s)
		if err != nil && ctx.Err() == nil && blameFor(err) != innocent {
			args, err = w.examineValues(ctx, s) // through another node
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("statement %d: %w", i+1, explainInput(err)))
		}
		batch[i] = statement{cql: s.text, args: args}
	}
	return batch, errors.Join(faults...)
}

func (w *Writer) examineValues(ctx context.Context, s Statement) ([]any, error) {
	try, cancel := context.WithTimeout(ctx, w.f.cfg.RequestTimeout)
	defer cancel()
	args, err := w.f.prepare(try, w.route, s.text)
	if err != nil {
		return nil, err
	}
	if len(args) != len(s.args) {
		return nil, &inputError{fmt.Errorf("it has %s and got %s; give one value for each marker", counted(len(args), "marker"), counted(len(s.args), "value"))}
	}
	sent := make([]any, len(args))
	for i, c := range args {
		if c.Keyspace != w.f.cfg.Keyspace || c.Table != w.f.cfg.Table {
			return nil, notFenced(c.Keyspace+"."+c.Table, w.f.name())
		}
		if sent[i] = s.args[i]; sent[i] == any(gocql.UnsetValue) {
			continue
		}
		b, err := marshal(c.TypeInfo, s.args[i])
		if err != nil {
			return nil, &inputError{fmt.Errorf("value of %s: %w", c.Name, err)}
		}
		sent[i] = marshaled(bytes.Clone(b))
	}
	return sent, nil
}

// marshaled is a value as it goes over the wire; nil is null.
type marshaled []byte

// MarshalCQL implements gocql.Marshaler.
func (m marshaled) MarshalCQL(gocql.TypeInfo) ([]byte, error) { return m, nil }

// marshal shields from marshalers that panic.
func marshal(t gocql.TypeInfo, v any) (b []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("marshaling a %T panicked: %v", v, p)
		}
	}()
	return gocql.Marshal(t, v)
}

// partition checks the values of a partition key, and returns them under the
// names of their parameters together with the route there.
func (f *Fence) partition(key []any) (values, route, error) {
	if len(key) != len(f.keys) {
		return nil, route{}, ownership.Invalid("partition key", fmt.Sprintf("%v", key),
			fmt.Sprintf("must have %s: %s", counted(len(f.keys), "value"), strings.Join(f.keys, ", ")), "")
	}
	v := values{}
	var faults []error
	for i, k := range key {
		b, err := marshal(f.types[i], k)
		switch {
		case err != nil:
			faults = append(faults, ownership.Invalid(f.keys[i], fmt.Sprintf("%v (%T)", k, k), "must be "+f.types[i].Type().String(), err.Error()))
		case b == nil:
			faults = append(faults, ownership.Invalid(f.keys[i], "null", "must not be null, as a part of the partition key", ""))
		case len(b) == 0 && len(f.keys) == 1: // the server takes an empty part, but no empty key
			faults = append(faults, ownership.Invalid(f.keys[i], "empty", "must not be empty, as the whole partition key", ""))
		}
		v[keyParam(i)] = marshaled(bytes.Clone(b))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, route{}, err
	}
	b, err := partitionKey(f.types, key)
	return v, route{keyspace: f.cfg.Keyspace, key: b}, err
}

// report tells the hooks of a verdict.
func (f *Fence) report(stamp fence.Stamp, v fence.Verdict, err error) {
	ownership.Each(f.cfg.Hooks, func(h fence.HookVerdict) { h.OnVerdict(fence.VerdictEvent{Stamp: stamp, Verdict: v, Err: err}) })
}
