package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// shared holds the clusters of this test process, one a description.
var shared struct {
	mu       sync.Mutex // held while a cluster starts: two at once would only slow each other down
	running  bool       // within Run
	clusters map[Cassandra]*startOnce
}

// A startOnce is the outcome of one start. A failed one is not tried again: it would fail every test as slowly.
type startOnce struct {
	cluster *Cluster
	err     error
}

// Run runs the tests, ends every cluster that ForTest has started, and returns the exit code, which is not 0 either when
// a cluster could not be ended. A package that uses ForTest needs
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }
func Run(m interface{ Run() int }) int {
	shared.mu.Lock()
	shared.running, shared.clusters = true, map[Cassandra]*startOnce{}
	shared.mu.Unlock()
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.running = false
	for _, s := range shared.clusters {
		if s.cluster == nil {
			continue
		}
		if err := s.cluster.Close(); err != nil {
			fmt.Println(err)
			code = max(code, 1)
		}
	}
	return code
}

// ForTest returns the cluster that cfg describes, whole. The first test to ask starts it, all later ones of the same test
// process share it, healed when a test before left nodes frozen or dead: so keep data apart by keyspace, and let no other
// test run in parallel to one that faults nodes. Run ends the cluster; the test must not.
//
// Where no server can be had, the test fails when CI is set, and is skipped otherwise, with what to install. Any other
// failure to start fails the test. A failed test logs the state of the nodes, and the log of dead ones.
func (cfg Cassandra) ForTest(t testing.TB) *Cluster {
	t.Helper()
	c, err := cfg.share(t)
	if errors.Is(err, ErrNoServer) && !underCI() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log("cluster:", c.Chosen())
	if err := c.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, n := range c.nodes {
			t.Logf("cluster: %s is %s", n.name, n.State())
			if n.State() == Dead {
				t.Log(n.Log(logLines))
			}
		}
	})
	return c
}

// share starts the cluster, or returns the one that is there.
func (cfg Cassandra) share(t testing.TB) (*Cluster, error) {
	key, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	key.Log = nil
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		return nil, errors.New("cluster: ForTest needs, in this package: func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }")
	}
	s := shared.clusters[key]
	if s == nil {
		if cfg.Log == nil {
			cfg.Log = t.Output()
		}
		s = &startOnce{}
		// Not bound to the test: what it starts is for all.
		s.cluster, s.err = cfg.Start(context.WithoutCancel(t.Context()))
		shared.clusters[key] = s
	}
	return s.cluster, s.err
}
