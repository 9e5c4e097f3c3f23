package cqlfake_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2"
	"github.com/scylladb/gocqlx/v2/qb"
	"github.com/scylladb/gocqlx/v2/table"

	"github.com/tenure-go/tenure/cassandra/cqlfake"
)

func TestStatements(t *testing.T) {
	each(t, 3, func(t *testing.T, c *cqlfake.Cluster) {
		s := schema(t, c)
		for i := range 20 {
			exec(t, s, "INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)", i, 1, fmt.Sprint("v", i))
		}
		for i := range 20 {
			var v string
			if err := s.Query("SELECT v FROM k.t WHERE p = ? AND c = ?", i, 1).Scan(&v); err != nil || v != fmt.Sprint("v", i) {
				t.Fatalf("row %d: %q, %v", i, v, err)
			}
		}
		for _, n := range c.Nodes() {
			if n.Connections() == 0 {
				t.Errorf("gocql did not connect to %s", n.Address())
			}
		}
		if err := s.Query("SELECT v FROM k.t WHERE p = 99 AND c = 1").Scan(new(string)); !errors.Is(err, gocql.ErrNotFound) {
			t.Errorf("no row: %v", err)
		}
		md, err := s.KeyspaceMetadata("k")
		if err != nil {
			t.Fatal(err)
		}
		table := md.Tables["t"]
		if table == nil || len(table.PartitionKey) != 1 || table.ClusteringColumns[0].Name != "c" || table.Columns["s"].Kind != gocql.ColumnStatic {
			t.Errorf("metadata: %+v", table)
		}
	})
}

func TestKeyspaceOfTheSession(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{})
	schema(t, c)
	cfg := c.ClusterConfig()
	cfg.Keyspace = "k"
	s := open(t, cfg)
	exec(t, s, "INSERT INTO t (p, c, v) VALUES (1, 1, 'x')")
	var v string
	if err := s.Query("SELECT v FROM t WHERE p = 1").Scan(&v); err != nil || v != "x" {
		t.Errorf("%q, %v", v, err)
	}
	cfg = c.ClusterConfig()
	cfg.Keyspace = "nowhere"
	if s, err := quiet(cfg).CreateSession(); err == nil {
		s.Close()
		t.Error("a session in a keyspace that is not there")
	}
}

// Routing by token finds the node that has the token.
func TestTokenAware(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{Nodes: 3})
	schema(t, c)
	cfg := c.ClusterConfig()
	cfg.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	cfg.Keyspace = "k"
	s := open(t, cfg)
	byNode := map[*cqlfake.Node]map[string]bool{}
	c.Observe(func(r cqlfake.Request) {
		if r.Kind == cqlfake.KindExecute && !r.Answered {
			if byNode[r.Node] == nil {
				byNode[r.Node] = map[string]bool{}
			}
			byNode[r.Node][string(r.Statements[0].Values[0].Bytes)] = true
		}
	})
	for range 3 {
		for i := range 12 {
			exec(t, s, "INSERT INTO k.t (p, c) VALUES (?, 1)", i)
		}
	}
	c.Observe(nil)
	keys := 0
	for _, k := range byNode {
		keys += len(k)
	}
	if len(byNode) != 3 || keys != 12 {
		t.Errorf("%d nodes, %d keys: a key went to several nodes", len(byNode), keys)
	}
}

func TestConditional(t *testing.T) {
	s := schema(t, cqlfake.Start(t, cqlfake.Options{}))
	for i, want := range []bool{true, false} {
		row := map[string]any{}
		applied, err := s.Query("INSERT INTO k.t (p, c, v) VALUES (1, 1, ?) IF NOT EXISTS", fmt.Sprint("v", i)).MapScanCAS(row)
		if err != nil || applied != want {
			t.Fatalf("insert %d: %v, %v", i, applied, err)
		}
		if !want && row["v"] != "v0" {
			t.Errorf("what was there: %v", row)
		}
	}
	b := s.NewBatch(gocql.LoggedBatch)
	b.Query("UPDATE k.t SET v = ? WHERE p = 1 AND c = 1 IF v = ?", "v2", "v0")
	b.Query("INSERT INTO k.t (p, c, v) VALUES (1, 2, ?)", "beside")
	if applied, _, err := s.MapExecuteBatchCAS(b, map[string]any{}); err != nil || !applied {
		t.Fatalf("batch: %v, %v", applied, err)
	}
	if applied, _, err := s.MapExecuteBatchCAS(b, map[string]any{}); err != nil || applied {
		t.Fatalf("the same again: %v, %v", applied, err)
	}
	var n int
	if err := s.Query("SELECT count(*) FROM k.t WHERE p = 1").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// What is measured on servers: without metadata the rows of a prepared
// conditional statement look empty.
func TestSkippedMetadata(t *testing.T) {
	s := schema(t, cqlfake.Start(t, cqlfake.Options{}))
	const text = "INSERT INTO k.t (p, c) VALUES (1, 1) IF NOT EXISTS"
	for _, noSkip := range []bool{false, true} {
		q := s.Query(text)
		if noSkip {
			q = q.NoSkipMetadata()
		}
		iter := q.Iter()
		if got := len(iter.Columns()) > 0; got != noSkip {
			t.Errorf("NoSkipMetadata %v: %d columns", noSkip, len(iter.Columns()))
		}
		if err := iter.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPaging(t *testing.T) {
	s := schema(t, cqlfake.Start(t, cqlfake.Options{}))
	for i := range 25 {
		exec(t, s, "INSERT INTO k.t (p, c) VALUES (1, ?)", i)
	}
	iter := s.Query("SELECT c FROM k.t WHERE p = 1").PageSize(10).Iter()
	var got []int
	var n int
	first := iter.NumRows()
	for iter.Scan(&n) {
		got = append(got, n)
	}
	if err := iter.Close(); err != nil || len(got) != 25 || first != 10 || !slices.IsSorted(got) {
		t.Errorf("first page %d, %v, %v", first, got, err)
	}
}

func TestErrors(t *testing.T) {
	s := schema(t, cqlfake.Start(t, cqlfake.Options{}))
	code := func(text string) int {
		t.Helper()
		var e gocql.RequestError
		if err := s.Query(text).Exec(); !errors.As(err, &e) {
			t.Fatalf("%s: %v", text, err)
		}
		return e.Code()
	}
	for text, want := range map[string]int{
		"SELEKT":                               gocql.ErrCodeSyntax,
		"SELECT * FROM k.nothing":              gocql.ErrCodeInvalid,
		"SELECT * FROM k.t WHERE nothing = 1":  gocql.ErrCodeInvalid,
		"CREATE TABLE k.t (p int PRIMARY KEY)": gocql.ErrCodeAlreadyExists,
	} {
		if got := code(text); got != want {
			t.Errorf("%s: %#x, want %#x", text, got, want)
		}
	}
	var exists *gocql.RequestErrAlreadyExists
	if err := s.Query("CREATE TABLE k.t (p int PRIMARY KEY)").Exec(); !errors.As(err, &exists) || exists.Keyspace != "k" || exists.Table != "t" {
		t.Errorf("%+v, %v", exists, err)
	}
	// Sent without preparing, since gocql prepares only what can have values.
	if err := s.Query("SELECT v FROM k.t WHERE p = ?", "text").Exec(); err == nil {
		t.Error("a text for an int")
	}
}

// A node that forgot what was prepared is asked again by the driver.
func TestForget(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{})
	s := schema(t, c)
	prepared := c.Inject(cqlfake.Fault{Kind: cqlfake.KindPrepare, Times: -1})
	const text = "INSERT INTO k.t (p, c) VALUES (?, ?)"
	exec(t, s, text, 1, 1)
	exec(t, s, text, 1, 2)
	c.Node(0).Forget()
	exec(t, s, text, 1, 3)
	b := s.NewBatch(gocql.UnloggedBatch)
	b.Query(text, 1, 4)
	c.Node(0).Forget()
	if err := s.ExecuteBatch(b); err != nil {
		t.Fatal(err)
	}
	if prepared.Hits() != 3 {
		t.Errorf("prepared %d times", prepared.Hits())
	}
	exec(t, s, "ALTER TABLE k.t ADD w text")
	exec(t, s, text, 1, 5)
	if prepared.Hits() != 4 {
		t.Errorf("prepared %d times after a change of the schema", prepared.Hits())
	}
}

// Requests go to the nodes that are left, and come back.
func TestStop(t *testing.T) {
	test := func(t *testing.T, c *cqlfake.Cluster) {
		schema(t, c)
		cfg := c.ClusterConfig()
		cfg.ReconnectInterval = 100 * time.Millisecond
		s := open(t, cfg)
		insert := func() error { return s.Query("INSERT INTO k.t (p, c) VALUES (1, 1)").Exec() }
		c.Node(0).Stop()
		retry(t, insert)
		retry(t, func() error {
			if n := c.Node(0).Connections(); n != 0 {
				return fmt.Errorf("%d connections to a node that is stopped", n)
			}
			return nil
		})
		c.Node(0).Start()
		there := c.Inject(cqlfake.Fault{Node: c.Node(0), Times: -1})
		retry(t, func() error {
			if err := insert(); err != nil {
				return err
			}
			if there.Hits() == 0 {
				return errors.New("nothing comes to the node that started again")
			}
			return nil
		})
	}
	t.Run("memory", func(t *testing.T) {
		bubble(t, func(t *testing.T) { test(t, cqlfake.Start(t, cqlfake.Options{Nodes: 2})) })
	})
	t.Run("TCP", func(t *testing.T) {
		test(t, cqlfake.Start(t, cqlfake.Options{Nodes: 2, Listen: "127.0.0.1:0"}))
	})
}

func TestAuthentication(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{Users: map[string]string{"ada": "secret"}})
	open(t, c.ClusterConfig())
	for _, a := range []gocql.Authenticator{nil, gocql.PasswordAuthenticator{Username: "ada", Password: "guess"}} {
		cfg := c.ClusterConfig()
		cfg.Authenticator = a
		if s, err := quiet(cfg).CreateSession(); err == nil {
			s.Close()
			t.Errorf("let in with %v", a)
		}
	}
}

// Two coordinators disagree about what has expired.
func TestClocks(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{Nodes: 2})
	s := schema(t, c)
	var at [2]*gocql.Session
	for i := range at {
		cfg := c.ClusterConfig()
		c.Node(i).Configure(cfg)
		at[i] = open(t, cfg)
	}
	exec(t, s, "INSERT INTO k.t (p, c) VALUES (1, 1) USING TTL 60")
	rows := func(s *gocql.Session) int {
		var n int
		if err := s.Query("SELECT count(*) FROM k.t").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	c.Node(1).Advance(time.Minute)
	if a, b := rows(at[0]), rows(at[1]); a != 1 || b != 0 {
		t.Errorf("%d rows for the slow clock, %d for the fast one", a, b)
	}
	c.Advance(time.Minute)
	if n := rows(at[0]); n != 0 {
		t.Errorf("%d rows later", n)
	}
	if d := c.Node(1).Now().Sub(c.Node(0).Now()); d < 59*time.Second || d > 61*time.Second {
		t.Errorf("the clocks differ by %v", d)
	}
}

// A coordinator whose clock is behind is not overruled: conditional statements
// follow each other whatever the clocks say.
func TestClockBehind(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{Nodes: 2})
	schema(t, c)
	var at [2]*gocql.Session
	for i := range at {
		cfg := c.ClusterConfig()
		c.Node(i).Configure(cfg)
		at[i] = open(t, cfg)
	}
	c.Node(1).Advance(time.Hour)
	cas := func(s *gocql.Session, text string) {
		t.Helper()
		if applied, err := s.Query(text).MapScanCAS(map[string]any{}); err != nil || !applied {
			t.Fatalf("%s: %v, %v", text, applied, err)
		}
	}
	cas(at[1], "INSERT INTO k.t (p, c, v) VALUES (1, 1, 'fast') IF NOT EXISTS")
	cas(at[0], "UPDATE k.t SET v = 'slow' WHERE p = 1 AND c = 1 IF v = 'fast'")
	var v string
	if err := at[0].Query("SELECT v FROM k.t WHERE p = 1").Scan(&v); err != nil || v != "slow" {
		t.Errorf("%q, %v", v, err)
	}
	cas(at[0], "DELETE FROM k.t WHERE p = 1 AND c = 1 IF EXISTS")
	if err := at[1].Query("SELECT v FROM k.t WHERE p = 1 AND c = 1").Scan(&v); err != gocql.ErrNotFound {
		t.Errorf("%q, %v", v, err)
	}
}

// In a bubble an hour takes no time, and nothing outlives it.
func TestBubble(t *testing.T) {
	start := time.Now()
	bubble(t, func(t *testing.T) {
		c := cqlfake.Start(t, cqlfake.Options{Nodes: 3})
		s := schema(t, c)
		exec(t, s, "INSERT INTO k.t (p, c) VALUES (1, 1) USING TTL 3600")
		rows := func() (n int) {
			if err := s.Query("SELECT count(*) FROM k.t").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		time.Sleep(59 * time.Minute)
		before := rows()
		time.Sleep(time.Minute)
		if after := rows(); before != 1 || after != 0 {
			t.Errorf("%d rows before the hour, %d after it", before, after)
		}
	})
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %v", d)
	}
}

func TestGocqlx(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{})
	schema(t, c)
	x := gocqlx.NewSession(open(t, c.ClusterConfig()))
	type row struct {
		P, C int
		V    *string
	}
	tab := table.New(table.Metadata{Name: "k.t", Columns: []string{"p", "c", "v"}, PartKey: []string{"p"}, SortKey: []string{"c"}})
	text := "x"
	for i := range 3 {
		if err := x.Query(tab.Insert()).BindStruct(row{P: 1, C: i, V: &text}).ExecRelease(); err != nil {
			t.Fatal(err)
		}
	}
	var rows []row
	if err := x.Query(tab.Select("p", "c", "v")).BindMap(qb.M{"p": 1}).SelectRelease(&rows); err != nil || len(rows) != 3 || *rows[2].V != "x" {
		t.Errorf("%v, %v", rows, err)
	}
	q := qb.Update("k.t").Set("v").Where(qb.Eq("p"), qb.Eq("c")).If(qb.EqNamed("v", "old")).Query(x)
	applied, err := q.BindMap(qb.M{"p": 1, "c": 0, "v": "y", "old": "x"}).ExecCASRelease()
	if err != nil || !applied {
		t.Errorf("%v, %v", applied, err)
	}
}
