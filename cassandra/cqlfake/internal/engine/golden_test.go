package engine

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
)

// recordFrom, the address of a real server, makes the golden test write down what
// that server answers, instead of comparing the engine with it.
var recordFrom = flag.String("record", "", "address of a Cassandra to record the golden files from")

var goldenFiles = flag.String("golden", "testdata/*.golden", "the golden files")

// TestGolden replays testdata/*.golden: statements, and what Cassandra 5.0.6
// answered. A line "> …" is a statement, "~ …" one that the engine refuses
// although a server carries it out, "@ sleep n" lets n seconds pass; the lines
// after it are the answer. Of errors the code must be equal.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(*goldenFiles)
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".golden"), func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if *recordFrom != "" {
				out := recordGolden(t, string(b))
				if err := os.WriteFile(f, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			replay(t, string(b))
		})
	}
}

func replay(t *testing.T, text string) {
	f := newFixture(t)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		n := i + 1
		i++
		if !strings.HasPrefix(line, "> ") && !strings.HasPrefix(line, "~ ") && !strings.HasPrefix(line, "@ ") {
			if line != "" && line[0] != '#' {
				t.Fatalf("line %d: %q is no statement", n, line)
			}
			continue
		}
		var want []string
		for i < len(lines) && strings.HasPrefix(lines[i], "  ") {
			want = append(want, lines[i][2:])
			i++
		}
		if s, ok := strings.CutPrefix(line, "@ sleep "); ok {
			sec, _ := strconv.Atoi(s)
			f.now = f.now.Add(time.Duration(sec) * time.Second)
			continue
		}
		f.now = f.now.Add(10 * time.Millisecond)
		got := f.show(line[2:])
		if line[0] == '~' {
			if !strings.Contains(strings.Join(got, "\n"), "cqlfake") {
				t.Errorf("line %d: %s\ngot %s, want a clear refusal", n, line, strings.Join(got, "\n    "))
			}
			continue
		}
		a, b := strings.Join(got, "\n    "), strings.Join(want, "\n    ")
		if strings.HasPrefix(b, "error ") && len(a) >= 12 && len(b) >= 12 && a[:12] == b[:12] {
			if testing.Verbose() && a != b {
				t.Logf("line %d: %s\n      got  %s\n      want %s", n, line, a, b)
			}
			continue
		}
		if a != b {
			t.Errorf("line %d: %s\n got:\n    %s\n want:\n    %s", n, line, a, b)
		}
	}
}

func recordGolden(t *testing.T, text string) string {
	c := gocql.NewCluster(*recordFrom)
	c.Timeout, c.ConnectTimeout, c.ProtoVersion, c.DisableInitialHostLookup = 20*time.Second, 20*time.Second, 4, true
	c.NumConns = 1
	s, err := c.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"DROP KEYSPACE IF EXISTS spec", createSpec} {
		if err := s.Query(q).Exec(); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	c.Keyspace = "spec"
	if s, err = c.CreateSession(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out = append(out, line)
		if n, ok := strings.CutPrefix(line, "@ sleep "); ok {
			sec, _ := strconv.Atoi(n)
			time.Sleep(time.Duration(sec) * time.Second)
		}
		if strings.HasPrefix(line, "> ") || strings.HasPrefix(line, "~ ") {
			for _, l := range showReal(s, line[2:]) {
				out = append(out, "  "+l)
			}
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// raw keeps the bytes of a value.
type raw struct{ b []byte }

func (r *raw) UnmarshalCQL(_ gocql.TypeInfo, b []byte) error {
	r.b = b
	return nil
}

func showReal(s *gocql.Session, cql string) []string {
	iter := s.Query(cql).NoSkipMetadata().RetryPolicy(nil).Iter()
	var rows [][][]byte
	for {
		dest := make([]any, 0, len(iter.Columns()))
		var vals []*raw
		for _, c := range iter.Columns() {
			n := 1
			if tuple, ok := c.TypeInfo.(gocql.TupleTypeInfo); ok {
				n = len(tuple.Elems)
			}
			for range n {
				r := &raw{}
				vals, dest = append(vals, r), append(dest, r)
			}
		}
		if !iter.Scan(dest...) {
			break
		}
		row := make([][]byte, len(vals))
		for i, v := range vals {
			row[i] = v.b
		}
		rows = append(rows, row)
	}
	columns := iter.Columns()
	if err := iter.Close(); err != nil {
		var re gocql.RequestError
		if errors.As(err, &re) {
			return []string{fmt.Sprintf("error 0x%04x: %s", re.Code(), strings.ReplaceAll(re.Message(), "\n", " "))}
		}
		return []string{"error " + err.Error()}
	}
	if len(columns) == 0 {
		return []string{"ok"}
	}
	var cols []Column
	for _, c := range columns {
		cols = append(cols, Column{Name: c.Name, Type: realType(c.TypeInfo)})
	}
	return showRows(cols, rows)
}

func realType(i gocql.TypeInfo) Type {
	t := Type{ID: uint16(i.Type())}
	switch i := i.(type) {
	case gocql.CollectionType:
		if i.Key != nil {
			t.Elems = append(t.Elems, realType(i.Key))
		}
		t.Elems = append(t.Elems, realType(i.Elem))
	case gocql.TupleTypeInfo:
		for _, e := range i.Elems {
			t.Elems = append(t.Elems, realType(e))
		}
	}
	return t
}

func showRows(columns []Column, rows [][][]byte) []string {
	var head []string
	for _, c := range columns {
		t := c.Type
		t.Frozen = false // not on the wire
		head = append(head, c.Name+" "+showType(t))
	}
	out := []string{strings.Join(head, " | ")}
	for _, r := range rows {
		var cells []string
		for i, v := range r {
			t := Type{ID: TypeBlob}
			if i < len(columns) {
				t = columns[i].Type
			}
			cells = append(cells, showValue(t, v))
		}
		out = append(out, "- "+strings.Join(cells, " | "))
	}
	return out
}

// showType leaves out what the wire does not tell.
func showType(t Type) string {
	return strings.NewReplacer("frozen<", "<").Replace(t.String())
}

func showValue(t Type, v []byte) string {
	if v == nil {
		return "null"
	}
	switch t.ID {
	case TypeText, TypeASCII:
		return strconv.Quote(string(v))
	case TypeInt, TypeBigint, TypeSmallint, TypeTinyint, TypeCounter:
		return fmt.Sprint(signed(v))
	case TypeBoolean:
		return fmt.Sprint(len(v) == 1 && v[0] == 1)
	case TypeList, TypeSet, TypeMap:
		parts, _ := splitParts(t, v)
		var list []string
		for i, p := range parts {
			list = append(list, showValue(t.Elems[i%len(t.Elems)], p))
		}
		return "[" + strings.Join(list, " ") + "]"
	}
	return "0x" + hex.EncodeToString(v)
}

const createSpec = "CREATE KEYSPACE spec WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"

// fixture is an engine with the keyspace spec.
type fixture struct {
	t   testing.TB
	e   *Engine
	now time.Time
}

func newFixture(t testing.TB) *fixture {
	f := &fixture{t: t, e: New(Options{}), now: time.Unix(1_700_000_000, 0)}
	defineSchemaTables(f.e)
	f.must(createSpec)
	return f
}

func (f *fixture) run(cql string, values ...any) (Result, error) {
	st, err := f.e.Prepare("spec", cql)
	if err != nil {
		return Result{}, err
	}
	return f.exec(st, values...)
}

func (f *fixture) bind(st *Statement, values ...any) Bound {
	b := Bound{Statement: st}
	for i, v := range values {
		bytes, err := Encode(st.Variables[i].Type, v)
		if err != nil {
			f.t.Fatal(err)
		}
		b.Values = append(b.Values, Value{Bytes: bytes})
	}
	return b
}

func (f *fixture) exec(st *Statement, values ...any) (Result, error) {
	return f.e.Execute(Request{Keyspace: "spec", Consistency: 1, PageSize: 5000, Now: f.now, Statements: []Bound{f.bind(st, values...)}})
}

func (f *fixture) must(cql string, values ...any) Result {
	f.t.Helper()
	r, err := f.run(cql, values...)
	if err != nil {
		f.t.Fatalf("%s: %v", cql, err)
	}
	return r
}

func (f *fixture) show(cql string, values ...any) []string {
	r, err := f.run(cql, values...)
	var e *Error
	switch {
	case errors.As(err, &e):
		return []string{fmt.Sprintf("error 0x%04x: %s", e.Code, e.Message)}
	case err != nil:
		f.t.Fatalf("%s: %v is not an *Error", cql, err)
	case r.Kind != Rows:
		return []string{"ok"}
	}
	for _, row := range r.Rows {
		for i, c := range r.Columns {
			if err := c.Type.validate(row[i]); err != nil {
				f.t.Errorf("%s: column %s: %v", cql, c.Name, err)
			}
		}
	}
	return showRows(r.Columns, r.Rows)
}
