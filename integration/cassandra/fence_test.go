package cassandra_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2"
	"github.com/scylladb/gocqlx/v2/qb"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

// fenced is a table of a user's, with a fence.
type fenced struct {
	*testing.T
	cfg     cassandra.Config
	session *gocql.Session
	fence   *cassandra.Fence
	heard   *verdicts
	region  string // this test's own
}

// columns of the user's table, whose partition key has two parts. The tuple and
// the collections are there because a refusal returns them too.
const userTable = `CREATE TABLE IF NOT EXISTS %s.shard (region text, n int, k int, v text, total int STATIC,
	tags set<text>, place frozen<tuple<int, text>>, PRIMARY KEY ((region, n), k))`

func newFenced(t *testing.T) *fenced {
	t.Helper()
	f := &fenced{T: t, cfg: base(t, perResource), heard: &verdicts{}, region: fresh(t.Name())}
	f.session = connect(t, f.cfg)
	err := f.session.Query("SELECT fence_batch FROM " + f.cfg.Keyspace + ".shard LIMIT 1").Exec()
	if err != nil { // the first test to come makes it
		f.exec(fmt.Sprintf(userTable, f.cfg.Keyspace))
		f.exec(cassandra.AddColumns(f.cfg.Keyspace, "shard"))
	}
	f.fence = f.open(f.session)
	return f
}

func (f *fenced) open(s *gocql.Session) *cassandra.Fence {
	f.Helper()
	fe, err := cassandra.NewFence(f.Context(), s, cassandra.FenceConfig{Keyspace: f.cfg.Keyspace, Table: "shard", Hooks: ownership.Hooks{f.heard}})
	if err != nil {
		f.Fatal(err)
	}
	return fe
}

func (f *fenced) exec(cql string, args ...any) {
	f.Helper()
	if err := f.session.Query(cql, args...).Exec(); err != nil {
		f.Fatalf("%s: %v", cql, err)
	}
}

func (f *fenced) takeOver(token ownership.Token, key ...any) *cassandra.Writer {
	f.Helper()
	w, err := f.fence.TakeOverAs(f.Context(), stamp(token), key...)
	if err != nil {
		f.Fatal(err)
	}
	return w
}

func stamp(token ownership.Token) fence.Stamp {
	return fence.Stamp{Resource: "shard", Owner: fmt.Sprintf("owner#%d", token), Token: token}
}

// set is a write of v to row k.
func (f *fenced) set(region string, n, k int, v string) cassandra.Statement {
	return cassandra.CQL("INSERT INTO "+f.cfg.Keyspace+".shard (region, n, k, v) VALUES (?, ?, ?, ?)", region, n, k, v)
}

func (f *fenced) accepted(w *cassandra.Writer, s ...cassandra.Statement) {
	f.Helper()
	if v, err := w.Write(f.Context(), s...); v != fence.Accepted || err != nil {
		f.Fatalf("%v, %v; want accepted", v, err)
	}
}

func (f *fenced) stale(v fence.Verdict, err error, token, current ownership.Token) {
	f.Helper()
	var s *fence.StaleError
	if v != fence.Stale || !errors.As(err, &s) || !errors.Is(err, fence.ErrStale) {
		f.Fatalf("%v, %v; want stale", v, err)
	}
	if s.Token != token || s.Current != current {
		f.Fatalf("the error names tokens %d and %d, want %d and %d", s.Token, s.Current, token, current)
	}
}

// rows reads the partition past the fence.
func (f *fenced) rows(region string, n int) map[int]string {
	f.Helper()
	iter := f.session.Query("SELECT k, v FROM "+f.cfg.Keyspace+".shard WHERE region = ? AND n = ?", region, n).
		Consistency(gocql.Consistency(gocql.Serial)).Iter()
	got := map[int]string{}
	var k *int
	var v *string
	for iter.Scan(&k, &v) {
		if k != nil && v != nil {
			got[*k] = *v
		}
		k, v = nil, nil
	}
	if err := iter.Close(); err != nil {
		f.Fatal(err)
	}
	return got
}

func (f *fenced) want(region string, n int, want map[int]string) {
	f.Helper()
	if got := f.rows(region, n); fmt.Sprint(got) != fmt.Sprint(want) {
		f.Fatalf("the partition holds %v, want %v", got, want)
	}
}

// verdicts is a hook that collects what the fence reports.
type verdicts struct {
	mu   sync.Mutex
	list []fence.VerdictEvent
}

func (h *verdicts) OnVerdict(e fence.VerdictEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, e)
}

func (h *verdicts) count(v fence.Verdict) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, e := range h.list {
		if e.Verdict == v {
			n++
		}
	}
	return n
}

// DESIGN 8.2: a late write of an old owner changes nothing, and says why.
func TestFenceRefusesLateWrites(t *testing.T) {
	f := newFenced(t)
	a := f.takeOver(1, f.region, 1)
	f.accepted(a, f.set(f.region, 1, 1, "a"))
	f.accepted(a, f.set(f.region, 1, 2, "a"), f.set(f.region, 1, 3, "a"))
	b := f.takeOver(2, f.region, 1)
	v, err := a.Write(t.Context(), f.set(f.region, 1, 1, "late"))
	f.stale(v, err, 1, 2)
	f.accepted(b, f.set(f.region, 1, 1, "b"))
	v, err = a.Write(t.Context(), f.set(f.region, 1, 1, "later"))
	f.stale(v, err, 1, 2)
	f.want(f.region, 1, map[int]string{1: "b", 2: "a", 3: "a"})
	if _, err := f.fence.TakeOverAs(t.Context(), stamp(1), f.region, 1); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("%v; want a stale takeover", err)
	}
	// Another partition has a fence of its own.
	c := f.takeOver(1, f.region, 2)
	f.accepted(c, f.set(f.region, 2, 1, "c"))
	if got := f.heard.count(fence.Stale); got != 3 {
		t.Errorf("the hooks heard of %d stale verdicts, want 3", got)
	}
}

// The same token may take over again; what an earlier writer under it had under
// way is shut out.
func TestFenceSameTokenAgain(t *testing.T) {
	f := newFenced(t)
	first := f.takeOver(7, f.region, 1)
	f.accepted(first, f.set(f.region, 1, 1, "first"))
	second := f.takeOver(7, f.region, 1)
	if v, err := first.Write(t.Context(), f.set(f.region, 1, 1, "late")); v != fence.NotApplied || !errors.Is(err, cassandra.ErrRival) {
		t.Fatalf("%v, %v; want the earlier writer shut out", v, err)
	}
	f.accepted(second, f.set(f.region, 1, 2, "second"))
	f.want(f.region, 1, map[int]string{1: "first", 2: "second"})
}

// Statements may have conditions of their own, and a refusal that returns every
// column of the table is read.
func TestFenceConditions(t *testing.T) {
	f := newFenced(t)
	w := f.takeOver(1, f.region, 1)
	create := cassandra.CQL("INSERT INTO " + f.cfg.Keyspace + ".shard (region, n, k, v, tags) VALUES ('" + f.region + "', 1, 1, 'x', {'a'}) IF NOT EXISTS")
	f.accepted(w, create)
	if v, err := w.Write(t.Context(), create, f.set(f.region, 1, 2, "no")); v != fence.NotApplied || !errors.Is(err, cassandra.ErrCondition) {
		t.Fatalf("%v, %v; want a failed condition", v, err)
	}
	f.accepted(w, cassandra.CQL("UPDATE "+f.cfg.Keyspace+".shard SET v = 'y' WHERE region = '"+f.region+"' AND n = 1 AND k = 1 IF v = 'x'"))
	f.accepted(w, cassandra.CQL("UPDATE "+f.cfg.Keyspace+".shard SET total = ? WHERE region = '"+f.region+"' AND n = 1", 9))
	f.want(f.region, 1, map[int]string{1: "y"})
	f.takeOver(2, f.region, 1)
	v, err := w.Write(t.Context(), create)
	f.stale(v, err, 1, 2)
}

// gocqlx queries are taken as they are bound.
func TestFenceTakesGocqlx(t *testing.T) {
	f := newFenced(t)
	w := f.takeOver(1, f.region, 1)
	x := gocqlx.NewSession(f.session)
	type row struct {
		Region string
		N, K   int
		V      string
	}
	q := qb.Insert(f.cfg.Keyspace+".shard").Columns("region", "n", "k", "v").Query(x).BindStruct(row{f.region, 1, 5, "bound"})
	f.accepted(w, cassandra.Bound(q))
	f.want(f.region, 1, map[int]string{5: "bound"})
	bad := qb.Insert(f.cfg.Keyspace+".shard").Columns("region", "n", "k", "v").Query(x).BindMap(qb.M{"region": f.region})
	if v, err := w.Write(t.Context(), cassandra.Bound(bad)); v != fence.NotApplied || err == nil {
		t.Fatalf("%v, %v; want the bind error", v, err)
	}
	var got []row
	read := &gocqlx.Queryx{
		Query:  w.Query(t.Context(), "SELECT region, n, k, v FROM "+f.cfg.Keyspace+".shard WHERE region = ? AND n = 1", f.region),
		Mapper: x.Mapper,
	}
	if err := read.Select(&got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []row{{f.region, 1, 5, "bound"}}) {
		t.Fatalf("read %v", got)
	}
}

// Whatever the server or the driver would refuse is refused before it is sent,
// with the reason, and the writer goes on.
func TestFenceBadStatements(t *testing.T) {
	f := newFenced(t)
	w := f.takeOver(1, f.region, 1)
	ks := f.cfg.Keyspace
	f.exec("CREATE TABLE IF NOT EXISTS " + ks + ".other (region text, n int, k int, v text, PRIMARY KEY ((region, n), k))")
	for _, c := range []struct {
		name  string
		s     []cassandra.Statement
		parts []string
	}{
		{"nothing", nil, []string{"at least one"}},
		{"syntax", []cassandra.Statement{cassandra.CQL("INSERT INTO")}, []string{"statement 1"}},
		{"another table", []cassandra.Statement{cassandra.CQL("INSERT INTO "+ks+".other (region, n, k, v) VALUES (?, ?, ?, ?)", f.region, 1, 1, "x")}, []string{ks + ".other", "must be " + ks + ".shard"}},
		{"another table, no values", []cassandra.Statement{cassandra.CQL("INSERT INTO " + ks + ".other (region, n, k, v) VALUES ('" + f.region + "', 1, 1, 'x')")}, []string{"table is " + ks + ".other: it must be " + ks + ".shard"}},
		{"no such table", []cassandra.Statement{cassandra.CQL("INSERT INTO " + ks + ".nosuch (region) VALUES ('x')")}, []string{"table is " + ks + ".nosuch: it must be " + ks + ".shard"}},
		{"no keyspace", []cassandra.Statement{cassandra.CQL("INSERT INTO shard (region, n, k, v) VALUES (?, ?, ?, ?)", f.region, 1, 1, "x")}, []string{"statement 1", "eyspace"}},
		{"another partition", []cassandra.Statement{f.set(f.region, 2, 1, "x")}, []string{"multiple partitions"}},
		{"too few values", []cassandra.Statement{cassandra.CQL("INSERT INTO "+ks+".shard (region, n, k, v) VALUES (?, ?, ?, ?)", f.region, 1)}, []string{"statement 1: it has 4 markers and got 2 values"}},
		{"wrong type", []cassandra.Statement{cassandra.CQL("INSERT INTO "+ks+".shard (region, n, k, v) VALUES (?, ?, ?, ?)", f.region, 1, "one", "x")}, []string{"value of k"}},
		{"panicking marshaler", []cassandra.Statement{cassandra.CQL("INSERT INTO "+ks+".shard (region, n, k, v) VALUES (?, ?, ?, ?)", f.region, 1, 1, panics{})}, []string{"panicked"}},
		{"no such column", []cassandra.Statement{cassandra.CQL("UPDATE " + ks + ".shard SET w = 'x' WHERE region = '" + f.region + "' AND n = 1 AND k = 1")}, []string{"statement 1"}},
		{"both faults", []cassandra.Statement{cassandra.CQL("SELECT * FROM x"), cassandra.CQL("INSERT INTO " + ks + ".shard JSON '{}'")}, []string{"INSERT, UPDATE or DELETE", "JSON"}},
		{"timestamp", []cassandra.Statement{cassandra.CQL("INSERT INTO " + ks + ".shard (region, n, k, v) VALUES ('" + f.region + "', 1, 1, 'x') USING TIMESTAMP 1")}, []string{"TIMESTAMP"}},
		{"comment first", []cassandra.Statement{cassandra.CQL("/* audit */ INSERT INTO " + ks + ".shard (region, n, k, v) VALUES ('" + f.region + "', 1, 9, 'past the fence')")}, []string{"comment"}},
		{"no blank after the verb, another table", []cassandra.Statement{cassandra.CQL("UPDATE\"" + ks + "\".other SET v = 'past the fence' WHERE region = '" + f.region + "' AND n = 1 AND k = 9")}, []string{""}},
		{"whole partition", []cassandra.Statement{cassandra.CQL("DELETE FROM " + ks + ".shard WHERE region = '" + f.region + "' AND n = 1")}, []string{"whole partition"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := w.Write(t.Context(), c.s...)
			if v != fence.NotApplied {
				t.Errorf("verdict %v", v)
			}
			contains(t, err, c.parts...)
			if !errors.Is(err, ownership.ErrInvalid) || strings.Contains(err.Error(), "CreateSchema") {
				t.Errorf("%v; want an ErrInvalid, and no word of CreateSchema", err)
			}
		})
	}
	f.accepted(w, f.set(f.region, 1, 1, "good"))
	f.accepted(w, cassandra.CQL("DELETE FROM "+ks+".shard WHERE region = '"+f.region+"' AND n = 1 AND k >= 0"))
	f.accepted(w, f.set(f.region, 1, 2, "good"))
	f.want(f.region, 1, map[int]string{2: "good"})
}

// A partition key that the server refuses is refused before it is sent.
func TestFenceBadKey(t *testing.T) {
	f := newFenced(t)
	f.exec("CREATE TABLE IF NOT EXISTS " + f.cfg.Keyspace + ".ledger (id text, k int, fence bigint STATIC, fence_seq bigint STATIC, fence_batch uuid STATIC, PRIMARY KEY (id, k))")
	ledger, err := cassandra.NewFence(t.Context(), f.session, cassandra.FenceConfig{Keyspace: f.cfg.Keyspace, Table: "ledger"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = ledger.TakeOverAs(t.Context(), stamp(1), "")
	contains(t, err, "id is empty")
	if !errors.Is(err, ownership.ErrInvalid) {
		t.Errorf("%v is no ErrInvalid", err)
	}
	// An empty part of a longer key is a key like any other.
	f.takeOver(1, "", 7)
}

// panics is a value whose marshaler panics.
type panics struct{}

func (panics) MarshalCQL(gocql.TypeInfo) ([]byte, error) { panic("no") }

// A deletion past the fence takes it down: the writer notices, and a new takeover
// mends it.
func TestFenceGone(t *testing.T) {
	f := newFenced(t)
	w := f.takeOver(5, f.region, 1)
	f.accepted(w, f.set(f.region, 1, 1, "x"))
	f.exec("DELETE FROM "+f.cfg.Keyspace+".shard WHERE region = ? AND n = 1", f.region)
	if v, err := w.Write(t.Context(), f.set(f.region, 1, 1, "y")); v != fence.NotApplied || !errors.Is(err, cassandra.ErrFenceGone) {
		t.Fatalf("%v, %v; want the fence gone", v, err)
	}
	f.accepted(f.takeOver(5, f.region, 1), f.set(f.region, 1, 1, "z"))
	f.want(f.region, 1, map[int]string{1: "z"})
}

// A write whose context ends is unknown until it is settled, and meanwhile no
// other is taken.
func TestFenceUnknownIsSettled(t *testing.T) {
	f := newFenced(t)
	w := f.takeOver(1, f.region, 1)
	applied, not := 0, 0
	for i := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends somewhere in between
			defer close(done)
			for range i * 2000 {
				if ctx.Err() != nil {
					return
				}
			}
			cancel()
		}()
		k := 100 + i
		v, err := w.Write(ctx, f.set(f.region, 1, k, "x"))
		cancel()
		<-done
		if v == fence.Unknown {
			if !errors.Is(err, ownership.ErrUnknown) {
				t.Fatalf("unknown, and yet %v", err)
			}
			if v, err := w.Write(t.Context(), f.set(f.region, 1, 1, "too soon")); v != fence.NotApplied || !errors.Is(err, cassandra.ErrUnsettled) {
				t.Fatalf("%v, %v; want the next write refused", v, err)
			}
			v, err = w.Settle(t.Context())
		}
		_, there := f.rows(f.region, 1)[k]
		switch {
		case v == fence.Accepted && err == nil && there:
			applied++
		case v == fence.NotApplied && err != nil && !there:
			not++
		default:
			t.Fatalf("write %d: %v, %v, and the row is there: %v", i, v, err, there)
		}
	}
	t.Logf("%d applied, %d not", applied, not)
	f.accepted(w, f.set(f.region, 1, 1, "last"))
}

// A writer made from a tenure refuses by itself once that is over.
func TestFenceByTenure(t *testing.T) {
	f := newFenced(t)
	own, err := cassandra.New(t.Context(), f.session, f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	tenure, err := own.Acquire(t.Context(), "shard-eu-1")
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.fence.TakeOver(t.Context(), tenure, f.region, 1)
	if err != nil {
		t.Fatal(err)
	}
	f.accepted(w, f.set(f.region, 1, 1, "held"))
	if err := tenure.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, err := w.Write(t.Context(), f.set(f.region, 1, 1, "late")); v != fence.NotApplied || !errors.Is(err, ownership.ErrReleased) {
		t.Fatalf("%v, %v; want it refused locally", v, err)
	}
	if _, err := f.fence.TakeOver(t.Context(), tenure, f.region, 1); !errors.Is(err, ownership.ErrNotHeld) {
		t.Fatalf("%v; want the takeover refused locally", err)
	}
	// Its stamp still writes: nobody has taken over.
	late, err := f.fence.TakeOverAs(t.Context(), fence.StampOf(tenure), f.region, 1)
	if err != nil {
		t.Fatal(err)
	}
	f.accepted(late, f.set(f.region, 1, 2, "unowned"))
	if err := own.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want(f.region, 1, map[int]string{1: "held", 2: "unowned"})
}

// Many writers under rising tokens race in one partition. What was accepted is
// there, what was not is not, and tokens never go back.
func TestFenceRace(t *testing.T) {
	f := newFenced(t)
	const writers, writes = 6, 12
	type entry struct {
		k int
		v fence.Verdict
	}
	var mu sync.Mutex
	var entries []entry
	var wg sync.WaitGroup
	for i := range writers {
		fe := f.open(connect(t, f.cfg))
		wg.Go(func() {
			w, err := fe.TakeOverAs(t.Context(), stamp(ownership.Token(i+1)), f.region, 1)
			if errors.Is(err, fence.ErrStale) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			for n := range writes {
				k := (i+1)*1000 + n
				v, err := w.Write(t.Context(), f.set(f.region, 1, k, fmt.Sprint(i)))
				if (v == fence.Accepted) != (err == nil) {
					t.Errorf("%v with %v", v, err)
				}
				mu.Lock()
				entries = append(entries, entry{k, v})
				mu.Unlock()
				if v == fence.Stale {
					return
				}
			}
		})
	}
	wg.Wait()
	rows := f.rows(f.region, 1)
	count := map[fence.Verdict]int{}
	for _, e := range entries {
		count[e.v]++
		_, there := rows[e.k]
		if e.v == fence.Accepted && !there || (e.v == fence.Stale || e.v == fence.NotApplied) && there {
			t.Errorf("row %d: verdict %v, and there: %v", e.k, e.v, there)
		}
	}
	t.Logf("verdicts: %v", count)
	f.accepted(f.takeOver(99, f.region, 1), f.set(f.region, 1, 1, "end"))
}

// All that is wrong with a table is named at once.
func TestFenceTableFaults(t *testing.T) {
	f := newFenced(t)
	ks := f.cfg.Keyspace
	f.exec("CREATE TABLE IF NOT EXISTS " + ks + ".bad (id text, c int, fence text, v text, PRIMARY KEY (id, c)) WITH default_time_to_live = 60")
	f.exec("CREATE TABLE IF NOT EXISTS " + ks + ".narrow (id text PRIMARY KEY, v text)")
	for _, c := range []struct {
		cfg   cassandra.FenceConfig
		parts []string
	}{
		{cassandra.FenceConfig{Keyspace: ks, Table: "bad"}, []string{"column fence", "without a column fence_seq", "without a column fence_batch", "default_time_to_live", "AddColumns"}},
		{cassandra.FenceConfig{Keyspace: ks, Table: "narrow"}, []string{"clustering column", "without a column fence_seq"}},
		{cassandra.FenceConfig{Keyspace: ks, Table: "nosuch"}, []string{"must exist"}},
		{cassandra.FenceConfig{Keyspace: "no_such", Table: "x"}, []string{"keyspace no_such is missing", "must exist"}},
		{cassandra.FenceConfig{Keyspace: ks, Table: "tenure_ownership"}, []string{"must be a table of yours"}},
		{cassandra.FenceConfig{Keyspace: "a b", Table: "", RequestTimeout: -1, DataCenter: "dc"}, []string{"Keyspace", "Table", "RequestTimeout", "DataCenter"}},
	} {
		_, err := cassandra.NewFence(t.Context(), f.session, c.cfg)
		contains(t, err, c.parts...)
		if !errors.Is(err, ownership.ErrInvalid) {
			t.Errorf("%v is no ErrInvalid", err)
		}
	}
	_, err := f.fence.TakeOverAs(t.Context(), fence.Stamp{}, f.region)
	contains(t, err, "Stamp.Token", "must have 2 values: region, n")
	_, err = f.fence.TakeOverAs(t.Context(), stamp(1), 3, "x")
	contains(t, err, "region", "n is x")
	_, err = f.fence.TakeOverAs(t.Context(), stamp(1), nil, 1)
	contains(t, err, "must not be null")
	_, err = f.fence.TakeOver(t.Context(), nil, f.region, 1)
	contains(t, err, "tenure is nil")
}
