package cqlfake

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/cassandra/cqlfake/internal/engine"
)

// rows is a RESULT of rows, decoded.
type rows struct {
	flags   int32
	state   []byte
	columns []string // empty without metadata
	count   int32    // of columns
	cells   [][]byte
}

func (r response) rows(t *testing.T) rows {
	t.Helper()
	if r.op != opResult || r.body.int() != int32(engine.Rows) {
		t.Fatalf("opcode %#x is no rows: %q", r.op, r.body.b)
	}
	var rs rows
	b := r.body
	rs.flags, rs.count = b.int(), b.int()
	if rs.flags&hasMorePages != 0 {
		rs.state = b.bytes()
	}
	if rs.flags&noMetadata == 0 {
		if rs.flags&globalTable == 0 {
			t.Fatal("columns of one table, each with a table of its own")
		}
		b.string()
		b.string()
		for range rs.count {
			rs.columns = append(rs.columns, b.string())
			if b.short() != 0x09 { // int
				t.Fatalf("the type of %s", rs.columns)
			}
		}
	}
	for range b.int() * rs.count {
		rs.cells = append(rs.cells, b.bytes())
	}
	if b.err != nil || len(b.b) != 0 {
		t.Fatalf("%v, %d bytes left", b.err, len(b.b))
	}
	return rs
}

func (r response) isKind(t *testing.T, kind int32) *body {
	t.Helper()
	if r.op != opResult || r.body.int() != kind {
		t.Fatalf("opcode %#x is not a result of kind %d: %q", r.op, kind, r.body.b)
	}
	return r.body
}

func longString(s string) []byte { return append(appendInt(nil, len(s)), s...) }

func number(n int) []byte { return appendBytes(nil, appendInt(nil, n)) }

var null, unset = appendInt(nil, -1), appendInt(nil, -2)

// with makes parameters of consistency ONE.
func with(flags byte, parts ...[]byte) []byte {
	return append([]byte{0, 1, flags}, bytes.Join(parts, nil)...)
}

// rawTable makes the table k.t (p, c, v) of ints.
func rawTable(t *testing.T) *raw {
	c := dialRaw(t, Start(t, Options{}))
	c.startup()
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").isKind(t, int32(engine.SchemaChange))
	c.query("CREATE TABLE k.t (p int, c int, v int, PRIMARY KEY (p, c))").isKind(t, int32(engine.SchemaChange))
	return c
}

func TestValuesOfAQuery(t *testing.T) {
	c := rawTable(t)
	insert := longString("INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)")
	c.ask(opQuery, insert, with(withValues, appendShort(nil, 3), number(1), number(1), number(10))).isKind(t, int32(engine.Void))
	c.ask(opQuery, insert, with(withValues, appendShort(nil, 3), number(1), number(1), unset)).isKind(t, int32(engine.Void))
	c.ask(opQuery, insert, with(withValues, appendShort(nil, 3), number(1), number(2), null)).isKind(t, int32(engine.Void))
	named := bytes.Join([][]byte{appendString(nil, "x"), number(30), appendString(nil, "y"), number(3)}, nil)
	c.ask(opQuery, longString("INSERT INTO k.t (p, c, v) VALUES (1, :y, :x)"), with(withValues|withNames, appendShort(nil, 2), named)).isKind(t, int32(engine.Void))
	got := c.query("SELECT c, v FROM k.t WHERE p = 1").rows(t)
	if !slices.Equal(got.columns, []string{"c", "v"}) {
		t.Errorf("columns %v", got.columns)
	}
	want := [][]byte{{0, 0, 0, 1}, {0, 0, 0, 10}, {0, 0, 0, 2}, nil, {0, 0, 0, 3}, {0, 0, 0, 30}}
	if !slices.EqualFunc(got.cells, want, bytes.Equal) {
		t.Errorf("%v", got.cells)
	}
	c.ask(opQuery, insert, with(withValues, appendShort(nil, 1), number(1))).isError(t, CodeInvalid, "")
	c.ask(opQuery, insert, with(withValues, appendShort(nil, 3), number(1), number(1), appendInt(nil, -3))).isError(t, CodeProtocol, "length")
}

// A timestamp of the client's decides which write is the last.
func TestTimestampOfAQuery(t *testing.T) {
	c := rawTable(t)
	set := func(v int, micros byte) {
		c.ask(opQuery, longString("UPDATE k.t SET v = ? WHERE p = 1 AND c = 1"),
			with(withValues|withTimestamp, appendShort(nil, 1), number(v), []byte{0, 0, 0, 0, 0, 0, 0, micros})).isKind(t, int32(engine.Void))
	}
	set(1, 200)
	set(2, 100)
	if got := c.query("SELECT v FROM k.t WHERE p = 1").rows(t); !bytes.Equal(got.cells[0], []byte{0, 0, 0, 1}) {
		t.Errorf("%v", got.cells)
	}
}

func TestPreparedAndPages(t *testing.T) {
	c := rawTable(t)
	for _, row := range []string{"1, 1, 10", "1, 2, 20", "1, 3, 30"} {
		c.query("INSERT INTO k.t (p, c, v) VALUES ("+row+")").isKind(t, int32(engine.Void))
	}
	b := c.ask(opPrepare, longString("SELECT v FROM k.t WHERE p = ?")).isKind(t, resultPrepared)
	id := b.shortBytes()
	if flags, variables, keys, first := b.int(), b.int(), b.int(), b.short(); flags != globalTable || variables != 1 || keys != 1 || first != 0 {
		t.Errorf("flags %d, %d variables, %d keys, the first %d", flags, variables, keys, first)
	}
	if k, table, name, kind := b.string(), b.string(), b.string(), b.short(); k+"."+table+"."+name != "k.t.p" || kind != 0x09 {
		t.Errorf("%s.%s.%s of type %#x", k, table, name, kind)
	}
	if flags, columns := b.int(), b.int(); flags != globalTable || columns != 1 {
		t.Errorf("result: flags %d, %d columns", flags, columns)
	}
	execute := func(flags byte, more ...[]byte) response {
		parts := append([][]byte{appendShort(nil, 1), number(1)}, more...)
		return c.ask(opExecute, append(appendShort(nil, len(id)), id...), with(withValues|flags, parts...))
	}
	all := execute(skipMetadata).rows(t)
	if all.flags&noMetadata == 0 || all.count != 1 || len(all.cells) != 3 {
		t.Errorf("without metadata: %+v", all)
	}
	first := execute(withPageSize, appendInt(nil, 2)).rows(t)
	if len(first.cells) != 2 || first.state == nil || len(first.columns) != 1 {
		t.Errorf("first page: %+v", first)
	}
	second := execute(withPageSize|withPagingState|withSerialConsistency, appendInt(nil, 2), appendBytes(nil, first.state), appendShort(nil, 8)).rows(t)
	if len(second.cells) != 1 || second.state != nil || !bytes.Equal(second.cells[0], []byte{0, 0, 0, 30}) {
		t.Errorf("second page: %+v", second)
	}
	if r := execute(withPageSize|withPagingState, appendInt(nil, 2), appendBytes(nil, []byte("nonsense"))); r.op != opError {
		t.Errorf("a paging state of nobody's: opcode %#x", r.op)
	}

	// The error of an id that is not known names it.
	r := c.ask(opExecute, appendString(nil, "0123456789abcdef"), with(0))
	r.isError(t, CodeUnprepared, "not found")
	if got := r.body.string(); got != "0123456789abcdef" {
		t.Errorf("the id %q", got)
	}
}

func TestBatchOfBothKinds(t *testing.T) {
	c := rawTable(t)
	b := c.ask(opPrepare, longString("UPDATE k.t SET v = ? WHERE p = 1 AND c = 2")).isKind(t, resultPrepared)
	id := b.shortBytes()
	batch := func(kind byte, ids []byte) response {
		text := append(append([]byte{0}, longString("INSERT INTO k.t (p, c, v) VALUES (1, 1, ?)")...), 0, 1)
		prepared := append(append(append([]byte{1}, appendShort(nil, len(ids))...), ids...), 0, 1)
		return c.ask(opBatch, []byte{kind, 0, 2}, text, number(10), prepared, number(20), with(0))
	}
	batch(0, id).isKind(t, int32(engine.Void))
	batch(1, id).isKind(t, int32(engine.Void))
	if got := c.query("SELECT v FROM k.t WHERE p = 1").rows(t); len(got.cells) != 2 {
		t.Errorf("%v", got.cells)
	}
	batch(2, id).isError(t, CodeInvalid, "")
	batch(3, id).isError(t, CodeProtocol, "batch type 3")
	r := batch(0, []byte("0123456789abcdef"))
	r.isError(t, CodeUnprepared, "")
	if got := r.body.string(); got != "0123456789abcdef" {
		t.Errorf("the id %q", got)
	}
	c.ask(opBatch, []byte{0, 0, 1, 7}).isError(t, CodeProtocol, "")
	c.ask(opBatch, []byte{0, 0, 0}, with(withNames)).isError(t, CodeProtocol, "named")
}

func TestUseAndEvents(t *testing.T) {
	cluster := Start(t, Options{Nodes: 2})
	c, other := dialRaw(t, cluster), dialRaw(t, cluster)
	c.startup()
	other.startup()
	if r := other.ask(opRegister, appendStringList(nil, []string{"STATUS_CHANGE", schemaEvent})); r.op != opReady {
		t.Fatalf("REGISTER: opcode %#x", r.op)
	}
	change := func(b *body) string {
		parts := []string{b.string(), b.string(), b.string()}
		if len(b.b) > 0 {
			parts = append(parts, b.string())
		}
		return strings.Join(parts, " ")
	}
	for _, step := range []struct{ text, want string }{
		{"CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATED KEYSPACE k"},
		{"CREATE TABLE k.t (p int PRIMARY KEY)", "CREATED TABLE k t"},
		{"ALTER TABLE k.t ADD v int", "UPDATED TABLE k t"},
		{"DROP TABLE k.t", "DROPPED TABLE k t"},
	} {
		if got := change(c.query(step.text).isKind(t, int32(engine.SchemaChange))); got != step.want {
			t.Errorf("%s: %s", step.text, got)
		}
		e := other.receive()
		if e.op != opEvent || e.stream != -1 || e.body.string() != schemaEvent {
			t.Fatalf("event: opcode %#x on stream %d", e.op, e.stream)
		}
		if got := change(e.body); got != step.want {
			t.Errorf("event of %s: %s", step.text, got)
		}
	}
	if got := c.query("USE k").isKind(t, int32(engine.SetKeyspace)).string(); got != "k" {
		t.Errorf("USE: %s", got)
	}
	c.query("CREATE TABLE t (p int PRIMARY KEY)").isKind(t, int32(engine.SchemaChange))
	other.receive()
	other.query("SELECT * FROM t").isError(t, CodeInvalid, "")

	for _, want := range []string{"DOWN", "UP"} {
		if cluster.Node(1).Stop(); want == "UP" {
			other.receive() // it was stopped again
			cluster.Node(1).Start()
		}
		e := other.receive()
		if event, status := e.body.string(), e.body.string(); e.op != opEvent || event != statusEvent || status != want {
			t.Errorf("event %s %s", event, status)
		}
		if n, ip := e.body.byte(), e.body.take(4); n != 4 || !bytes.Equal(ip, cluster.Node(1).addr.IP.To4()) || e.body.int() != memoryPort {
			t.Errorf("of %d, %v", n, ip)
		}
	}
}

// Requests that come together are all answered, each on its stream.
func TestPipelining(t *testing.T) {
	c := rawTable(t)
	var all []byte
	for i := range 500 {
		all = append(all, request(int16(i), opQuery, longString("SELECT v FROM k.t WHERE p = 1"), with(0))...)
	}
	c.send(all)
	seen := map[int16]bool{}
	for range 500 {
		r := c.receive()
		r.rows(t)
		seen[r.stream] = true
	}
	if len(seen) != 500 {
		t.Errorf("%d streams", len(seen))
	}
}
