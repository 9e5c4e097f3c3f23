package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// seeds are the statements of the golden files.
func seeds(t testing.TB) []string {
	files, _ := filepath.Glob("testdata/*.golden")
	var list []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(line, "> ") || strings.HasPrefix(line, "~ ") {
				list = append(list, line[2:])
			}
		}
	}
	return append(list, "SELECT * FROM t WHERE k = ? AND c IN ? LIMIT ?", "INSERT INTO t (k, m) VALUES (:k, {?: ?}) USING TTL :ttl AND TIMESTAMP ?")
}

// FuzzParse: whatever the text is, the parser returns, soon, a statement or an
// *Error.
func FuzzParse(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		_, _, err := parse(text)
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Code == codeServer || e.Message == "") {
			t.Errorf("parse(%q): %v", text, err)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%d bytes took %v", len(text), d)
		}
	})
}

// FuzzExecute: no statement is the engine's own fault.
func FuzzExecute(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, []byte{0, 0, 0, 1})
	}
	f.Fuzz(func(t *testing.T, text string, value []byte) {
		fx := newFixture(t)
		fx.must("CREATE TABLE r (k int, c int, s int STATIC, v int, w text, l list<int>, PRIMARY KEY (k, c))")
		fx.must("CREATE TABLE p (k int PRIMARY KEY, a int, b text, z int)")
		fx.must("CREATE TABLE c (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>)")
		fx.must("INSERT INTO r (k, c, s, v, l) VALUES (1, 1, 1, 1, [1])")
		fx.must("INSERT INTO p (k, a) VALUES (1, 1)")
		st, err := fx.e.Prepare("spec", text)
		if err == nil {
			b := Bound{Statement: st}
			for range st.Variables {
				b.Values = append(b.Values, Value{Bytes: value})
			}
			for range 2 {
				_, err = fx.e.Execute(Request{Keyspace: "spec", Consistency: 1, PageSize: 2, Now: fx.now, Statements: []Bound{b}})
			}
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Code == codeServer && strings.Contains(e.Message, "at fault")) {
			t.Errorf("%q, %x: %v", text, value, err)
		}
	})
}

// What nests or repeats must cost no more than the text is long.
func TestParseBounded(t *testing.T) {
	const n = 50_000
	for _, text := range []string{
		"SELECT * FROM t WHERE k = " + strings.Repeat("(", n),
		"SELECT * FROM t WHERE " + strings.Repeat("(", n) + "k = 1",
		"INSERT INTO t (k) VALUES (" + strings.Repeat("[", n) + strings.Repeat("]", n) + ")",
		"INSERT INTO t (k) VALUES (" + strings.Repeat("{1:", n),
		"CREATE TABLE t (k " + strings.Repeat("list<", n) + "int",
		"SELECT " + strings.Repeat("a(", n) + " FROM t",
		"SELECT " + strings.Repeat("a,", n) + "a FROM t",
		strings.Repeat("/*", n),
		strings.Repeat("-- x\n", n),
		"SELECT * FROM t WHERE k IN (" + strings.Repeat("1,", n) + "1)",
		strings.Repeat("'", n), strings.Repeat("\"a", n), strings.Repeat("1e", n), strings.Repeat("1d", n),
		"SELECT * FROM t" + strings.Repeat(";", n),
		"INSERT INTO t (k) VALUES (1e999999999)", "INSERT INTO t (k) VALUES (-1e-999999999)",
		"\xff\xfe", "", " ", "--", "$$", "$", "\x00",
	} {
		start := time.Now()
		_, _, err := parse(text)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%.40q: %v", text, d)
		}
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
