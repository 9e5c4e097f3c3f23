package cassandra

import (
	"context"
	"errors"
	"io"
	"log"
	"strings"
	"sync"
	"testing"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

// faked returns a session with a cluster of the given number of nodes, in memory.
func faked(t *testing.T, nodes int, cfg Config) *gocql.Session {
	t.Helper()
	return session(t, cqlfake.Start(t, cqlfake.Options{Nodes: nodes}), cfg)
}

func session(t *testing.T, c *cqlfake.Cluster, cfg Config) *gocql.Session {
	t.Helper()
	cluster := c.ClusterConfig()
	cluster.Logger = log.New(io.Discard, "", 0)
	s, err := Connect(t.Context(), cluster, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func execute(t *testing.T, s *gocql.Session, cql string) {
	t.Helper()
	if err := s.Query(cql).Exec(); err != nil {
		t.Fatalf("%s: %v", cql, err)
	}
}

func threefold() Config {
	return Config{Keyspace: "app", Owner: "worker", Replication: map[string]int{"datacenter1": 3}}
}

// A lost table of tokens is not made again unawares, for they would start from 1
// (DESIGN 8.1).
func TestCreateSchemaKeepsTokens(t *testing.T) {
	cfg := threefold()
	s := faked(t, 3, cfg)
	if err := CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	execute(t, s, "DROP TABLE app.tenure_ownership")
	for range 2 {
		wantFaults(t, CreateSchema(t.Context(), s, cfg), "table app.tenure_ownership: it does not exist, though the keyspace was set up before; "+
			"its tokens are lost and would start again from 1; set TokenFloor above the highest token of any fenced table, or restore it")
	}
	cfg.TokenFloor = 1000
	if err := CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	// Where the other tables are missing, or nothing was agreed on yet, it goes on.
	cfg.TokenFloor = 0
	execute(t, s, "DROP TABLE app.tenure_session")
	if err := CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	execute(t, s, "DROP TABLE app.tenure_ownership")
	execute(t, s, "TRUNCATE app.tenure_meta")
	if err := CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
}

// Many create the schema for the first time at once: none takes the tables of
// another, half made, for lost ones.
func TestCreateSchemaAtOnce(t *testing.T) {
	cfg := threefold()
	s := faked(t, 3, cfg)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = CreateSchema(t.Context(), s, cfg) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A look that began before another process made everything sees the row of the
// meta table, and no table of tokens.
func TestCheckTokensLooksAgain(t *testing.T) {
	cfg := threefold().withDefaults()
	c := cqlfake.Start(t, cqlfake.Options{Nodes: 3})
	s := session(t, c, cfg)
	if err := CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	// A server lists a table a moment before it can read it.
	early := c.Inject(cqlfake.Fault{Table: "app.tenure_meta", Times: 2, Err: &cqlfake.Error{
		Code: gocql.ErrCodeInvalid, Message: "table tenure_meta does not exist"}})
	old := seen{keyspace: keyspaceInfo{found: true}, tables: map[string]tableInfo{MetaTable: {}}}
	if err := newAdmin(s, cfg).checkTokens(t.Context(), old); err != nil {
		t.Errorf("%v; want the table to be found", err)
	}
	if early.Hits() != 2 {
		t.Errorf("the server refused %d reads, want 2", early.Hits())
	}
}

// The keyspace is made when its replication fits the nodes, and not before.
func TestCreateSchemaReplication(t *testing.T) {
	cfg := threefold()
	s := faked(t, 2, cfg)
	wantFaults(t, CreateSchema(t.Context(), s, cfg), `Replication is "datacenter1": 3: it must be at most 2, the number of nodes there`)
	cfg.Replication = map[string]int{"datacenter1": 2, "elsewhere": 1}
	wantFaults(t, CreateSchema(t.Context(), s, cfg), `Replication is "elsewhere": 1: it must name data centres that have nodes; there are datacenter1`)
	_, err := New(t.Context(), s, cfg)
	wantFaults(t, err, "keyspace app: it does not exist") // nothing is half done
	if err := checker(func(c *Config) { c.Replication = cfg.Replication }).checkReplication(nil); err != nil {
		t.Errorf("%v, with no node known", err)
	}
}

// Bad input of a fence is ErrInvalid, whoever notices it, and changes nothing.
func TestFenceInput(t *testing.T) {
	cfg := threefold()
	s := faked(t, 3, cfg)
	_, err := NewFence(t.Context(), s, FenceConfig{Keyspace: "app", Table: "ledger"})
	wantFaults(t, err, "keyspace app is missing: it must exist")
	if err := CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	_, err = NewFence(t.Context(), s, FenceConfig{Keyspace: "app", Table: "ledger"})
	wantFaults(t, err, "table app.ledger is missing: it must exist")
	execute(t, s, "CREATE TABLE app.ledger (id text, k int, v text, PRIMARY KEY (id, k))")
	execute(t, s, AddColumns("app", "ledger"))
	f, err := NewFence(t.Context(), s, FenceConfig{Keyspace: "app", Table: "ledger"})
	if err != nil {
		t.Fatal(err)
	}
	stamp := fence.Stamp{Resource: "r", Owner: "o", Token: 1}
	_, err = f.TakeOverAs(t.Context(), stamp, "")
	wantFaults(t, err, "id is empty: it must not be empty")
	_, err = f.TakeOverAs(t.Context(), stamp)
	wantFaults(t, err, "must have 1 value: id")
	_, err = f.TakeOverAs(t.Context(), stamp, 5.5)
	wantFaults(t, err, "id is 5.5")
	w, err := f.TakeOverAs(t.Context(), stamp, "a")
	if err != nil {
		t.Fatal(err)
	}
	const insert = "INSERT INTO app.ledger (id, k, v) VALUES (?, ?, ?)"
	for name, c := range map[string]struct {
		s    Statement
		want string
	}{
		"missing table":     {CQL("INSERT INTO app.other (id, k) VALUES ('a', 1)"), "table is app.other: it must be app.ledger"},
		"missing keyspace":  {CQL("INSERT INTO nowhere.ledger (id, k) VALUES ('a', 1)"), "table is nowhere.ledger: it must be app.ledger"},
		"no keyspace":       {CQL("INSERT INTO ledger (id, k, v) VALUES (?, ?, ?)", "a", 1, "x"), "keyspace"},
		"syntax":            {CQL("INSERT INTO app.ledger (id, k VALUES (1)"), "statement 1"},
		"unknown column":    {CQL("UPDATE app.ledger SET w = ? WHERE id = ? AND k = ?", "x", "a", 1), "w"},
		"another partition": {CQL(insert, "b", 1, "x"), "partition"},
		"wrong type":        {CQL(insert, "a", "one", "x"), "value of k"},
		"too few values":    {CQL(insert, "a"), "statement 1: it has 3 markers and got 1 value; give one value for each marker"},
		"failed binding":    {Statement{err: errors.New("no field v")}, "no field v"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := w.Write(t.Context(), c.s)
			if v != fence.NotApplied {
				t.Errorf("verdict %v", v)
			}
			wantFaults(t, err, c.want)
			if strings.Contains(err.Error(), "CreateSchema") {
				t.Errorf("%v; CreateSchema does not help", err)
			}
		})
	}
	if v, err := w.Write(t.Context(), CQL(insert, "a", 1, "x")); v != fence.Accepted {
		t.Fatalf("%v, %v; want the writer to go on", v, err)
	}
}

// The end of a context is called a wait only by a call that waited, and one that
// asks for a verdict does not invent one.
func TestWriterTurns(t *testing.T) {
	w := &Writer{f: &Fence{}, where: "partition", turn: make(chan struct{}, 1), verdict: fence.Accepted}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // select picks at random
		v, err := w.Write(ctx, CQL("x"))
		if v != fence.NotApplied || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "before") {
			t.Fatalf("%v, %v; want the end of the context, and no wait", v, err)
		}
	}
	w.verdict, w.err = fence.Accepted, nil
	if v, err := w.Settle(ctx); v != fence.Accepted || err != nil {
		t.Errorf("%v, %v; want what is known", v, err)
	}
	w.turn <- struct{}{} // somebody writes
	if v, err := w.Write(ctx, CQL("x")); v != fence.NotApplied || !strings.Contains(err.Error(), "waiting for the write before") {
		t.Errorf("%v, %v; want the wait", v, err)
	}
	if v, err := w.Settle(ctx); v != fence.Unknown || !errors.Is(err, ownership.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v; want it unknown", v, err)
	}
}
