package cassandra_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/integration/cluster"
	"github.com/tenure-go/tenure/ownership/lease"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

// server is the cluster that the tests of this package share. The environment
// chooses another: TENURE_TEST_VERSION, _NODES and _PAXOS.
func server() cluster.Cassandra {
	c := cluster.Cassandra{Version: os.Getenv("TENURE_TEST_VERSION"), Paxos: os.Getenv("TENURE_TEST_PAXOS")}
	_, _ = fmt.Sscan(os.Getenv("TENURE_TEST_NODES"), &c.Nodes)
	return c
}

// plain is a gocql configuration for the cluster.
func plain(c *cluster.Cluster) *gocql.ClusterConfig {
	cfg := gocql.NewCluster(c.Addresses()...)
	cfg.Timeout = 30 * time.Second // a change of the schema is slow on a busy machine
	if user, password := c.Credentials(); user != "" {
		cfg.Authenticator = gocql.PasswordAuthenticator{Username: user, Password: password}
	}
	return cfg
}

// connect opens a session that went through cassandra.Connect.
func connect(t testing.TB, cfg cassandra.Config) *gocql.Session {
	t.Helper()
	s, err := cassandra.Connect(t.Context(), plain(server().ForTest(t)), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// dataCenter of the cluster, which has one.
const dataCenter = "datacenter1"

var names atomic.Int64

// fresh returns a name that no test, of this run or another, has used.
func fresh(prefix string) string {
	return fmt.Sprintf("%s_%d_%d", prefix, time.Now().UnixNano(), names.Add(1))
}

// blank is a configuration of a keyspace that does not exist. Only tests of the
// schema need one: dropping it takes a server seconds.
func blank(t testing.TB) cassandra.Config {
	t.Helper()
	c := server().ForTest(t)
	cfg := cassandra.Config{
		Keyspace: fresh("tenure"), Owner: "tester", Replication: map[string]int{dataCenter: len(c.Addresses())},
		AllowSingleReplica: len(c.Addresses()) == 1,
	}
	t.Cleanup(func() {
		s := connect(cleanup{t}, cfg)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Query("DROP KEYSPACE IF EXISTS " + cfg.Keyspace).WithContext(ctx).Exec(); err != nil {
			t.Log(err)
		}
	})
	return cfg
}

// cleanup is a test in its cleanup: its own context has ended.
type cleanup struct{ testing.TB }

func (cleanup) Context() context.Context { return context.Background() }

// base is a configuration whose tables exist. Those of one variant share a
// keyspace, so tests use fresh resources.
func base(t testing.TB, v variant) cassandra.Config {
	t.Helper()
	c := server().ForTest(t)
	cfg := cassandra.Config{
		Keyspace: "tenure_test_" + strings.ReplaceAll(v.name, " ", "_"), Owner: "tester",
		Replication: map[string]int{dataCenter: len(c.Addresses())}, AllowSingleReplica: len(c.Addresses()) == 1,
	}
	if v.change != nil {
		v.change(&cfg)
	}
	if err := cassandra.CreateSchema(t.Context(), connect(t, cfg), cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// variants are the configurations that behave differently.
var variants = []variant{
	perResource,
	{"hashed", func(c *cassandra.Config) { c.Buckets = 4 }},
	{"local serial", func(c *cassandra.Config) { c.Serial, c.DataCenter, c.Buckets = gocql.LocalSerial, dataCenter, 1 }},
}

type variant struct {
	name   string
	change func(*cassandra.Config)
}

var perResource = variant{"per resource", nil}

func newStore(t testing.TB, s *gocql.Session, cfg cassandra.Config) lease.Store {
	t.Helper()
	st, err := cassandra.NewStore(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// contains fails the test unless err mentions all of parts.
func contains(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q is not in the error:\n%v", p, err)
		}
	}
}
