package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"
)

func variables(st *Statement) string {
	s := ""
	for _, v := range st.Variables {
		s += fmt.Sprintf("%s %s;", v.Name, v.Type)
	}
	return s
}

// The names and types of bind variables, and the positions of the partition key,
// are what drivers bind and route by.
func TestPrepared(t *testing.T) {
	f := newFixture(t)
	f.must("CREATE TABLE r (k int, k2 text, c int, s int STATIC, v int, l list<int>, m map<text, int>, PRIMARY KEY ((k, k2), c))")
	for _, c := range []struct {
		cql, variables string
		pk             []uint16
		columns        string
		conditional    bool
	}{
		{"SELECT k, v AS x FROM r WHERE k2 = ? AND k = ? LIMIT ?", "k2 text;k int;[limit] int;", []uint16{1, 0}, "k x", false},
		{"SELECT * FROM r WHERE k IN ? AND k2 = 'x' AND c > ?", "in(k) list<int>;c int;", nil, "k k2 c s l m v", false},
		{"SELECT v FROM r PER PARTITION LIMIT ? LIMIT :n", "[per_partition_limit] int;n int;", nil, "v", false},
		{"SELECT token(k, k2) FROM r WHERE token(k, k2) > ?", "partition key token bigint;", nil, "system.token(k, k2)", false},
		{"INSERT INTO r (c, k2, k, v) VALUES (?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?", "c int;k2 text;k int;v int;[ttl] int;[timestamp] bigint;", []uint16{2, 1}, "", false},
		{"UPDATE r USING TTL ? SET v = ?, l[?] = ?, m[?] = ?, l = l + ? WHERE k = ? AND k2 = ? AND c = ? IF v IN ? AND s > ?",
			"[ttl] int;v int;idx(l) int;value(l) int;key(m) text;value(m) int;l list<int>;k int;k2 text;c int;in(v) list<int>;s int;", []uint16{7, 8}, "", true},
		{"UPDATE r SET v = :a WHERE k = :b AND k2 = :c AND c = :b", "a int;b int;c text;b int;", []uint16{1, 2}, "", false},
		{"DELETE FROM r USING TIMESTAMP ? WHERE k = 1 AND k2 = ?", "[timestamp] bigint;k2 text;", nil, "", false},
		{"BEGIN BATCH USING TIMESTAMP ? INSERT INTO r (k, k2, c) VALUES (?, 'x', ?); DELETE FROM r WHERE k = ? AND k2 = 'y'; APPLY BATCH",
			"[timestamp] bigint;k int;c int;k int;", nil, "", false},
	} {
		st, err := f.e.Prepare("spec", c.cql)
		if err != nil {
			t.Errorf("%s: %v", c.cql, err)
			continue
		}
		columns := ""
		for i, col := range st.Columns {
			if i > 0 {
				columns += " "
			}
			columns += col.Name
		}
		if got := variables(st); got != c.variables || !reflect.DeepEqual(st.PKIndexes, c.pk) || columns != c.columns || st.Conditional != c.conditional {
			t.Errorf("%s:\n got  %s %v %q %v\n want %s %v %q %v", c.cql, got, st.PKIndexes, columns, st.Conditional, c.variables, c.pk, c.columns, c.conditional)
		}
	}
}

// A statement whose table has changed since is refused, so that nobody reads
// columns by an old list.
func TestStale(t *testing.T) {
	f := newFixture(t)
	f.must("CREATE TABLE p (k int PRIMARY KEY, v int)")
	st, err := f.e.Prepare("spec", "SELECT * FROM p")
	if err != nil {
		t.Fatal(err)
	}
	for _, ddl := range []string{"ALTER TABLE p WITH comment = 'x'", "ALTER KEYSPACE spec WITH durable_writes = false"} {
		f.must(ddl)
		if _, err := f.exec(st); err != nil {
			t.Errorf("after %s: %v", ddl, err)
		}
	}
	for _, ddl := range [][]string{{"ALTER TABLE p ADD w int"}, {"DROP TABLE p", "CREATE TABLE p (k int PRIMARY KEY, v int)"}, {"DROP KEYSPACE spec"}} {
		if st, err = f.e.Prepare("spec", "SELECT * FROM p"); err != nil {
			t.Fatal(err)
		}
		for _, cql := range ddl {
			f.must(cql)
		}
		var e *Error
		if _, err := f.exec(st); !errors.As(err, &e) || e.Code != CodeUnprepared {
			t.Errorf("after %s: %v, want it unprepared", ddl, err)
		}
	}
}

func TestSchemaChanges(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		cql  string
		want Change
	}{
		{"CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy'}", Change{"CREATED", "KEYSPACE", "a", ""}},
		{"ALTER KEYSPACE a WITH durable_writes = false", Change{"UPDATED", "KEYSPACE", "a", ""}},
		{"CREATE TABLE a.t (k int PRIMARY KEY)", Change{"CREATED", "TABLE", "a", "t"}},
		{"ALTER TABLE a.t ADD v int", Change{"UPDATED", "TABLE", "a", "t"}},
		{"DROP TABLE a.t", Change{"DROPPED", "TABLE", "a", "t"}},
		{"DROP KEYSPACE a", Change{"DROPPED", "KEYSPACE", "a", ""}},
	} {
		before := f.e.Schema().Version
		r := f.must(c.cql)
		if r.Kind != SchemaChange || r.Change != c.want || f.e.Schema().Version == before {
			t.Errorf("%s: %+v", c.cql, r)
		}
	}
	if r := f.must("USE spec"); r.Kind != SetKeyspace || r.Keyspace != "spec" {
		t.Errorf("USE: %+v", r)
	}
	var e *Error
	_, err := f.run("CREATE KEYSPACE spec WITH replication = {'class': 'SimpleStrategy'}")
	if !errors.As(err, &e) || e.Code != codeAlreadyExists || e.Keyspace != "spec" {
		t.Errorf("%+v", err)
	}
	f.must("CREATE TABLE p (k int PRIMARY KEY)")
	_, err = f.run("CREATE TABLE p (k int PRIMARY KEY)")
	if !errors.As(err, &e) || e.Keyspace != "spec" || e.Table != "p" {
		t.Errorf("%+v", err)
	}
}

// Pages of any size, put together, are what one page is.
func TestPaging(t *testing.T) {
	f := newFixture(t)
	f.must("CREATE TABLE r (k int, c int, s int STATIC, v int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)")
	for k := range 7 {
		f.must("UPDATE r SET s = ? WHERE k = ?", k, k)
		for c := range k {
			f.must("INSERT INTO r (k, c, v) VALUES (?, ?, ?)", k, c, 10*k+c)
		}
	}
	for _, cql := range []string{
		"SELECT * FROM r", "SELECT * FROM r LIMIT 11", "SELECT * FROM r PER PARTITION LIMIT 2", "SELECT * FROM r PER PARTITION LIMIT 2 LIMIT 7",
		"SELECT * FROM r WHERE k = 6", "SELECT * FROM r WHERE k = 6 ORDER BY c ASC", "SELECT * FROM r WHERE k = 6 ORDER BY c ASC LIMIT 4",
		"SELECT * FROM r WHERE k IN (6, 2, 0, 4)", "SELECT DISTINCT k, s FROM r", "SELECT * FROM r WHERE v > 30 ALLOW FILTERING",
		"SELECT * FROM r WHERE k = 6 AND c IN (1, 3, 5)", "SELECT count(*) FROM r", "SELECT * FROM r WHERE k = 0",
	} {
		st, err := f.e.Prepare("spec", cql)
		if err != nil {
			t.Fatal(err)
		}
		page := func(size int, state []byte) Result {
			r, err := f.e.Execute(Request{Consistency: 1, Now: f.now, Statements: []Bound{{Statement: st}}, PageSize: size, PagingState: state})
			if err != nil {
				t.Fatalf("%s: %v", cql, err)
			}
			return r
		}
		want := page(0, nil)
		for size := 1; size < 8; size++ {
			var got [][][]byte
			var state []byte
			for n := 0; ; n++ {
				r := page(size, state)
				if len(r.Rows) > size {
					t.Fatalf("%s: a page of %d has %d rows", cql, size, len(r.Rows))
				}
				got = append(got, r.Rows...)
				if state = r.PagingState; state == nil || n > 100 {
					break
				}
			}
			if !reflect.DeepEqual(got, want.Rows) {
				t.Errorf("%s, pages of %d:\n got  %v\n want %v", cql, size, got, want.Rows)
			}
		}
		for _, state := range [][]byte{{1}, []byte("cqlfake1"), bytes.Repeat([]byte{0xff}, 60), append([]byte("cqlfake1"), make([]byte, 40)...)} {
			_, err := f.e.Execute(Request{Consistency: 1, Now: f.now, Statements: []Bound{{Statement: st}}, PageSize: 1, PagingState: state})
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.Code != codeInvalid) {
				t.Errorf("paging state %x: %v", state, err)
			}
		}
	}
}

// A cell lives as long as now, in whole seconds, is below the second of its write
// plus the TTL.
func TestExpiry(t *testing.T) {
	f := newFixture(t)
	f.must("CREATE TABLE p (k int PRIMARY KEY, v int)")
	f.now = time.Unix(1000, 999_000_000)
	f.must("INSERT INTO p (k, v) VALUES (1, 1) USING TTL 2")
	for _, c := range []struct {
		at   time.Time
		live bool
		ttl  int64
	}{
		{time.Unix(1000, 999_000_000), true, 2}, {time.Unix(1001, 0), true, 1}, {time.Unix(1001, 999_999_999), true, 1},
		{time.Unix(1002, 0), false, 0}, {time.Unix(900, 0), true, 102}, // another coordinator's clock
	} {
		f.now = c.at
		r := f.must("SELECT TTL(v) FROM p WHERE k = 1")
		if (len(r.Rows) == 1) != c.live || c.live && signed(r.Rows[0][0]) != c.ttl {
			t.Errorf("at %v: %v", c.at, r.Rows)
		}
	}
}

// Timestamps of conditional writes only grow, even when a coordinator's clock is
// behind another's.
func TestBallots(t *testing.T) {
	f := newFixture(t)
	f.must("CREATE TABLE p (k int PRIMARY KEY, v int)")
	past := int64(1)
	st, _ := f.e.Prepare("spec", "UPDATE p SET v = ? WHERE k = 1 IF v = ?")
	last := int64(0)
	var prev any
	for i, now := range []int64{5000, 5000, 4000, 5001, 100} {
		f.now = time.Unix(now, 0)
		b := f.bind(st, i, prev)
		if i == 0 {
			b = f.bind(st, 0, nil)
		}
		// The client's own timestamp is ignored.
		r, err := f.e.Execute(Request{Consistency: 1, Serial: levelSerial, Now: f.now, Timestamp: &past, Statements: []Bound{b}})
		if err != nil || r.Rows[0][0][0] != 1 {
			t.Fatalf("update %d: %v %v", i, r.Rows, err)
		}
		prev = i
		ts := signed(f.must("SELECT WRITETIME(v) FROM p WHERE k = 1").Rows[0][0])
		if ts <= last {
			t.Errorf("update %d: timestamp %d after %d", i, ts, last)
		}
		last = ts
	}
}

func TestConsistencies(t *testing.T) {
	f := newFixture(t)
	f.must("CREATE TABLE p (k int PRIMARY KEY, v int)")
	for _, c := range []struct {
		cql           string
		level, serial uint16
		ok            bool
	}{
		{"SELECT * FROM p", levelSerial, 0, true}, {"SELECT * FROM p", levelAny, 0, false},
		{"INSERT INTO p (k) VALUES (1)", levelSerial, 0, false}, {"INSERT INTO p (k) VALUES (1)", levelAny, 0, true},
		{"INSERT INTO p (k) VALUES (1) IF NOT EXISTS", levelLocalSerial, levelSerial, false},
		{"INSERT INTO p (k) VALUES (1) IF NOT EXISTS", 4, 4, false}, {"INSERT INTO p (k) VALUES (1) IF NOT EXISTS", 4, levelLocalSerial, true},
	} {
		st, _ := f.e.Prepare("spec", c.cql)
		_, err := f.e.Execute(Request{Consistency: c.level, Serial: c.serial, Now: f.now, Statements: []Bound{{Statement: st}}})
		if (err == nil) != c.ok {
			t.Errorf("%s at %d, %d: %v", c.cql, c.level, c.serial, err)
		}
	}
}

func TestValues(t *testing.T) {
	f := newFixture(t)
	f.must("CREATE TABLE p (k int PRIMARY KEY, v int, w text)")
	st, _ := f.e.Prepare("spec", "INSERT INTO p (k, v, w) VALUES (:key, :v, :v2)")
	run := func(vals ...Value) error {
		_, err := f.e.Execute(Request{Consistency: 1, Now: f.now, Statements: []Bound{{Statement: st, Values: vals}}})
		return err
	}
	one := []byte{0, 0, 0, 1}
	if err := run(Value{Name: "v2", Bytes: []byte("w")}, Value{Name: "key", Bytes: one}, Value{Name: "v", Bytes: one}); err != nil {
		t.Fatal(err)
	}
	if err := run(Value{Bytes: one}, Value{Unset: true}, Value{Bytes: nil}); err != nil {
		t.Fatal(err)
	}
	r := f.must("SELECT v, w FROM p WHERE k = 1")
	if !reflect.DeepEqual(r.Rows, [][][]byte{{one, nil}}) {
		t.Errorf("unset keeps, null deletes: %v", r.Rows)
	}
	for what, vals := range map[string][]Value{
		"too few": {{Bytes: one}}, "unset key": {{Unset: true}, {Bytes: one}, {}}, "null key": {{}, {Bytes: one}, {}},
		"short": {{Bytes: []byte{1}}, {Bytes: one}, {}}, "no text": {{Bytes: one}, {Bytes: one}, {Bytes: []byte{0xff}}},
		"missing name": {{Name: "key", Bytes: one}, {Name: "v", Bytes: one}, {Name: "x", Bytes: one}},
	} {
		var e *Error
		if err := run(vals...); !errors.As(err, &e) || e.Code != codeInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A refused batch changes nothing, nor does one of which a statement has a fault.
func TestAtomic(t *testing.T) {
	f := newFixture(t)
	f.must("CREATE TABLE r (k int, c int, v int, PRIMARY KEY (k, c))")
	ins, _ := f.e.Prepare("spec", "INSERT INTO r (k, c, v) VALUES (1, ?, 1)")
	cond, _ := f.e.Prepare("spec", "INSERT INTO r (k, c, v) VALUES (1, ?, 1) IF NOT EXISTS")
	sel, _ := f.e.Prepare("spec", "SELECT * FROM r")
	bad := Bound{Statement: ins, Values: []Value{{}}}
	for _, list := range [][]Bound{{f.bind(ins, 1), bad}, {f.bind(cond, 1), bad}, {f.bind(ins, 1), {Statement: sel}}} {
		if _, err := f.e.Execute(Request{Batch: true, Consistency: 1, Now: f.now, Statements: list}); err == nil {
			t.Error("want an error")
		}
		if r := f.must("SELECT * FROM r"); len(r.Rows) != 0 {
			t.Errorf("changed: %v", r.Rows)
		}
	}
	r, err := f.e.Execute(Request{Batch: true, Consistency: 1, Now: f.now, Statements: []Bound{f.bind(cond, 1), f.bind(ins, 2)}})
	if err != nil || len(r.Columns) != 1 || r.Columns[0].Name != "[applied]" || r.Rows[0][0][0] != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if r, err = f.e.Execute(Request{Batch: true, Consistency: 1, Now: f.now}); err != nil || r.Kind != Void {
		t.Errorf("an empty batch: %+v %v", r, err)
	}
}

// Of races for one key, one wins.
func TestRaces(t *testing.T) {
	f := newFixture(t)
	f.must("CREATE TABLE p (k int PRIMARY KEY, v int)")
	st, _ := f.e.Prepare("spec", "INSERT INTO p (k, v) VALUES (?, ?) IF NOT EXISTS")
	wins := make([]int, 50)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for k := range wins {
				r, err := f.exec(st, k, g)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				wins[k] += int(r.Rows[0][0][0])
				mu.Unlock()
				_ = f.e.Schema()
			}
		})
	}
	wg.Wait()
	for k, n := range wins {
		if n != 1 {
			t.Errorf("key %d: %d winners", k, n)
		}
	}
}

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		cql  string
		v    any
		want string
	}{
		{"int", 5, "00000005"}, {"int", uint8(5), "00000005"}, {"bigint", int64(-1), "ffffffffffffffff"}, {"tinyint", -1, "ff"},
		{"text", "a", "61"}, {"boolean", true, "01"}, {"inet", "1.2.3.4", "01020304"}, {"double", 1.5, "3ff8000000000000"},
		{"list<int>", []int{1}, "000000010000000400000001"}, {"set<text>", []string{"b", "a", "b"}, "00000002000000016100000001" + "62"},
		{"map<text, text>", map[string]string{"k": "v"}, "00000001000000016b0000000176"}, {"tuple<int, text>", []any{1, nil}, "0000000400000001ffffffff"},
		{"varint", -129, "ff7f"}, {"decimal", "1.50", "000000020096"}, {"duration", "1mo2d3ns", "020406"}, {"date", time.Unix(0, 0), "80000000"},
		{"timestamp", time.UnixMilli(258), "0000000000000102"}, {"uuid", [16]byte{15: 1}, "00000000000000000000000000000001"},
	} {
		typ, err := ParseType(c.cql)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Encode(typ, c.v)
		if err != nil || fmt.Sprintf("%x", b) != c.want {
			t.Errorf("%s %v: %x %v, want %s", c.cql, c.v, b, err, c.want)
		}
		if err := typ.validate(b); err != nil {
			t.Errorf("%s: %v", c.cql, err)
		}
	}
	for cql, v := range map[string]any{"int": int64(1) << 40, "tinyint": 128, "text": 5, "uuid": "x", "tuple<int>": []any{1, 2}, "list<int>": []string{"x"}} {
		typ, _ := ParseType(cql)
		if b, err := Encode(typ, v); err == nil {
			t.Errorf("%s %v: %x, want an error", cql, v, b)
		}
	}
	for _, bad := range []string{"", "nope", "list<int", "list<>", "map<int>", "int int", "frozen<int>"} {
		if _, err := ParseType(bad); err == nil {
			t.Errorf("%q is no type", bad)
		}
	}
	if b := binary.BigEndian.AppendUint32(nil, 1<<31-1); (Type{ID: TypeList, Elems: []Type{{ID: TypeInt}}}).validate(b) == nil {
		t.Error("a list of two thousand million elements in four bytes")
	}
}

func BenchmarkConditional(b *testing.B) {
	f := newFixture(b)
	f.must("CREATE TABLE r (k text, c text, fence bigint STATIC, v bigint, PRIMARY KEY (k, c))")
	f.must("UPDATE r SET fence = 0 WHERE k = 'bucket'")
	fence, _ := f.e.Prepare("spec", "UPDATE r SET fence = ? WHERE k = ? IF fence = ?")
	for i := 0; b.Loop(); i++ {
		bound := f.bind(fence, i+1, "bucket", i)
		r, err := f.e.Execute(Request{Consistency: 4, Serial: levelSerial, Now: f.now, Statements: []Bound{bound}})
		if err != nil || r.Rows[0][0][0] != 1 {
			b.Fatal(r.Rows, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "statements/s")
}
