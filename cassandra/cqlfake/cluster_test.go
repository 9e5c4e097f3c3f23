package cqlfake_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake"
)

// All faults of the options are reported at once.
func TestBadOptions(t *testing.T) {
	_, err := cqlfake.New(cqlfake.Options{
		Nodes: -1, Version: "3.11.0", DataCenters: []string{""}, Listen: "192.0.2.1:9042", Users: map[string]string{"": "x"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"Nodes is -1", `Version is "3.11.0"`, "DataCenters", "loopback", "Users"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	for _, listen := range []string{"localhost:0", "127.0.0.1", "0.0.0.0:0"} {
		if c, err := cqlfake.New(cqlfake.Options{Listen: listen}); err == nil {
			c.Close()
			t.Errorf("listens on %s", listen)
		}
	}
	if c, err := cqlfake.New(cqlfake.Options{Listen: "[::1]:0", Nodes: 2}); err == nil {
		c.Close()
		t.Error("two nodes on IPv6")
	}
}

func TestPortThatIsTaken(t *testing.T) {
	first := cqlfake.Start(t, cqlfake.Options{Nodes: 2, Listen: "127.0.0.1:0"})
	_, port, _ := net.SplitHostPort(first.Addresses()[0])
	if c, err := cqlfake.New(cqlfake.Options{Listen: "127.0.0.2:" + port}); err == nil {
		c.Close()
		t.Error("two clusters on one address")
	}
	second := cqlfake.Start(t, cqlfake.Options{Nodes: 2, Listen: "127.0.0.1:0"})
	if second.Addresses()[0] == first.Addresses()[0] {
		t.Error("the same port twice")
	}
}

func TestDial(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{})
	dial := func(ctx context.Context, address string) error {
		nc, err := c.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = nc.Close()
		}
		return err
	}
	if err := dial(t.Context(), c.Addresses()[0]); err != nil {
		t.Error(err)
	}
	if err := dial(t.Context(), "192.0.2.99:9042"); err == nil || !strings.Contains(err.Error(), c.Addresses()[0]) {
		t.Errorf("an address that is none of ours: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dial(ended, c.Addresses()[0]); err == nil {
		t.Error("dialled with a context that has ended")
	}
	c.Close()
	if err := dial(context.Background(), c.Addresses()[0]); err == nil {
		t.Error("dialled a closed cluster")
	}
}

// A client that would compress goes without.
func TestCompressionIsDeclined(t *testing.T) {
	cfg := cqlfake.Start(t, cqlfake.Options{}).ClusterConfig()
	cfg.Compressor = gocql.SnappyCompressor{}
	exec(t, open(t, cfg), "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
}

// A driver that insists on another version of the protocol fails, and says why.
func TestOtherProtocolVersions(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{})
	for _, version := range []int{3, 5} {
		cfg := quiet(c.ClusterConfig())
		cfg.ProtoVersion = version
		s, err := cfg.CreateSession()
		if err == nil {
			s.Close()
			t.Errorf("version %d was let in", version)
		}
	}
}

// What drivers read of the cluster.
func TestSystemTables(t *testing.T) {
	c := cqlfake.Start(t, cqlfake.Options{Nodes: 3, Version: cqlfake.Version41, DataCenters: []string{"east", "west"}})
	for i, n := range c.Nodes() {
		cfg := c.ClusterConfig()
		n.Configure(cfg)
		s := open(t, cfg)
		var dc, version, id string
		if err := s.Query("SELECT data_center, release_version, host_id FROM system.local").Scan(&dc, &version, &id); err != nil {
			t.Fatal(err)
		}
		if want := []string{"east", "west", "east"}[i]; dc != want || n.DataCenter() != want || version != cqlfake.Version41 || id != n.HostID() {
			t.Errorf("node %d: %s, %s, %s", i, dc, version, id)
		}
		for _, table := range []string{"peers", "peers_v2"} {
			var peers int
			if err := s.Query("SELECT count(*) FROM system." + table).Scan(&peers); err != nil || peers != 2 {
				t.Errorf("%d rows of system.%s, %v", peers, table, err)
			}
		}
		var value string
		if err := s.Query("SELECT value FROM system_views.settings WHERE name = ?", "paxos_variant").Scan(&value); err != nil || value != "v2" {
			t.Errorf("%q, %v", value, err)
		}
		if err := s.Query("SELECT * FROM system_schema.column_masks").Exec(); err == nil {
			t.Error("4.1 has a table of 5.0")
		}
	}
}
