package cqlfake_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/cassandra/cqlfake"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/lease/storetest"
	"github.com/tenure-go/tenure/ownership/ownershiptest"
)

// The adapter of this project is the hardest user that we have: its suites run
// here as they do on real servers.

// adapterConfigs are those that behave differently.
var adapterConfigs = map[string]func(*cassandra.Config){
	"per resource": func(*cassandra.Config) {},
	"hashed":       func(c *cassandra.Config) { c.Buckets = 4 },
	"local serial": func(c *cassandra.Config) { c.Serial, c.DataCenter, c.Buckets = gocql.LocalSerial, "datacenter1", 1 },
}

func adapterConfig(change func(*cassandra.Config)) cassandra.Config {
	cfg := cassandra.Config{Keyspace: "tenure", Owner: "tester", Replication: map[string]int{"datacenter1": 3}}
	change(&cfg)
	return cfg
}

// connect opens a session for the adapter.
func connect(t testing.TB, c *cqlfake.Cluster, cfg cassandra.Config) *gocql.Session {
	t.Helper()
	s, err := cassandra.Connect(t.Context(), quiet(c.ClusterConfig()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func newStore(t testing.TB, s *gocql.Session, cfg cassandra.Config) lease.Store {
	t.Helper()
	store, err := cassandra.NewStore(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// adapter makes a cluster with the adapter's tables.
func adapter(t testing.TB, opts cqlfake.Options, cfg cassandra.Config) (*cqlfake.Cluster, *gocql.Session) {
	t.Helper()
	opts.Nodes = 3
	c := cqlfake.Start(t, opts)
	s := connect(t, c, cfg)
	if err := cassandra.CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	return c, s
}

func TestAdapterStore(t *testing.T) {
	t.Parallel()
	for name, change := range adapterConfigs {
		t.Run(name, func(t *testing.T) {
			cfg := adapterConfig(change)
			var c *cqlfake.Cluster
			storetest.Run(t, storetest.Harness{
				New: func(t *testing.T) lease.Store {
					linger(t)
					var s *gocql.Session
					c, s = adapter(t, cqlfake.Options{}, cfg)
					return newStore(t, s, cfg)
				},
				Second:      func(t *testing.T, _ lease.Store) lease.Store { return newStore(t, connect(t, c, cfg), cfg) },
				VirtualTime: true,
			})
		})
	}
}

// Over sockets, in real time.
func TestAdapterStoreOverTCP(t *testing.T) {
	if testing.Short() {
		t.Skip("waits out leases; leave -short away")
	}
	t.Parallel()
	cfg := adapterConfig(adapterConfigs["hashed"])
	c, s := adapter(t, cqlfake.Options{Listen: "127.0.0.1:0"}, cfg)
	second := connect(t, c, cfg)
	storetest.Run(t, storetest.Harness{
		New:    func(t *testing.T) lease.Store { return newStore(t, s, cfg) },
		Second: func(t *testing.T, _ lease.Store) lease.Store { return newStore(t, second, cfg) },
	})
}

func TestAdapterOwnership(t *testing.T) {
	for name, change := range adapterConfigs {
		t.Run(name, func(t *testing.T) {
			cfg := adapterConfig(change)
			ownershiptest.Run(t, ownershiptest.Harness{
				New: ownershiptest.OverStore(func(t *testing.T) lease.Store {
					linger(t)
					_, s := adapter(t, cqlfake.Options{}, cfg)
					return newStore(t, s, cfg)
				}),
				Timing:      ownership.Timing{TTL: 8 * time.Second, Granularity: time.Second},
				VirtualTime: true,
			})
		})
	}
}

// What the adapter reads of the cluster, and of its clocks.
func TestAdapterCheck(t *testing.T) {
	for _, version := range []string{cqlfake.Version50, cqlfake.Version41} {
		bubble(t, func(t *testing.T) {
			cfg := adapterConfig(adapterConfigs["per resource"])
			c, s := adapter(t, cqlfake.Options{Version: version, Settings: map[string]string{"commitlog_sync": "batch"}}, cfg)
			r, err := cassandra.Check(t.Context(), s, cfg)
			if err != nil || len(r.Findings) != 0 || len(r.Unchecked) != 0 || len(r.Nodes) != 3 || r.Nodes[0].Version != version {
				t.Errorf("version %s: %v\n%v", version, err, r)
			}
			c.Node(2).Advance(time.Minute)
			// Asked last: now() makes ids that increase over all nodes.
			c.Inject(cqlfake.Fault{Node: c.Node(2), Table: "system.local", Times: -1, Delay: 100 * time.Millisecond})
			r, err = cassandra.Check(t.Context(), s, cfg)
			if err != nil || len(r.Findings) != 2 || !strings.Contains(r.String(), c.Node(2).Address()[:len("192.0.2.3")]) {
				t.Errorf("version %s, a clock ahead: %v\n%v", version, err, r)
			}
		})
	}
}

// A late write is refused, however late it comes; an answer that is lost is made
// up for.
func TestAdapterFence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := adapterConfig(adapterConfigs["per resource"])
		c, s := adapter(t, cqlfake.Options{}, cfg)
		exec(t, s, "CREATE TABLE tenure.ledger (account text, entry int, amount int, PRIMARY KEY (account, entry))")
		exec(t, s, cassandra.AddColumns("tenure", "ledger"))
		f, err := cassandra.NewFence(t.Context(), s, cassandra.FenceConfig{Keyspace: "tenure", Table: "ledger"})
		if err != nil {
			t.Fatal(err)
		}
		takeOver := func(token ownership.Token) *cassandra.Writer {
			w, err := f.TakeOverAs(t.Context(), fence.Stamp{Resource: "ledger", Owner: "tester", Token: token}, "ada")
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		write := func(w *cassandra.Writer, entry int) (fence.Verdict, error) {
			return w.Write(t.Context(), cassandra.CQL("INSERT INTO tenure.ledger (account, entry, amount) VALUES ('ada', ?, 1)", entry))
		}
		old := takeOver(1)
		if v, err := write(old, 1); v != fence.Accepted {
			t.Fatalf("%v, %v", v, err)
		}
		lost := c.Inject(cqlfake.Fault{Table: "tenure.ledger", If: cqlfake.Request.Conditional, Kind: cqlfake.Statements, Answer: cqlfake.Timeout, Apply: true})
		if v, err := write(old, 2); v != fence.Accepted || lost.Hits() != 1 {
			t.Errorf("the answer was lost %d times: %v, %v", lost.Hits(), v, err)
		}
		takeOver(2)
		var stale *fence.StaleError
		if v, err := write(old, 3); v != fence.Stale || !errors.As(err, &stale) || stale.Current != 2 {
			t.Errorf("a late write: %v, %v", v, err)
		}
		var n int
		if err := s.Query("SELECT count(*) FROM tenure.ledger WHERE account = 'ada'").Scan(&n); err != nil || n != 2 {
			t.Errorf("%d entries, %v", n, err)
		}
	})
}
