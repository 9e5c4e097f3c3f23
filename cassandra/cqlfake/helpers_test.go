package cqlfake_test

import (
	"io"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake"
)

// quiet keeps gocql's remarks about lost connections out of the tests' output.
func quiet(cfg *gocql.ClusterConfig) *gocql.ClusterConfig {
	cfg.Logger = log.New(io.Discard, "", 0)
	return cfg
}

// open opens a session that is closed before the cluster is.
func open(t testing.TB, cfg *gocql.ClusterConfig) *gocql.Session {
	t.Helper()
	s, err := quiet(cfg).CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func exec(t testing.TB, s *gocql.Session, text string, values ...any) {
	t.Helper()
	if err := s.Query(text, values...).Exec(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// schema makes keyspace k with the table t, and returns a session in it.
func schema(t testing.TB, c *cqlfake.Cluster) *gocql.Session {
	t.Helper()
	s := open(t, c.ClusterConfig())
	exec(t, s, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	exec(t, s, "CREATE TABLE k.t (p int, c int, s text STATIC, v text, PRIMARY KEY (p, c))")
	return s
}

// each runs a test on both transports.
func each(t *testing.T, nodes int, test func(*testing.T, *cqlfake.Cluster)) {
	t.Run("memory", func(t *testing.T) { test(t, cqlfake.Start(t, cqlfake.Options{Nodes: nodes})) })
	t.Run("TCP", func(t *testing.T) {
		test(t, cqlfake.Start(t, cqlfake.Options{Nodes: nodes, Listen: "127.0.0.1:0"}))
	})
}

// linger lets goroutines of gocql end that a closed session has left sleeping for
// a moment, which a bubble does not wait for. Call it before anything else.
func linger(t *testing.T) { t.Cleanup(func() { time.Sleep(time.Minute) }) }

// bubble runs a test in a bubble of testing/synctest.
func bubble(t *testing.T, test func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		linger(t)
		test(t)
	})
}
