package cassandra_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra"
)

// has reports whether the report has a finding of that severity about all parts.
func has(r cassandra.Report, s cassandra.Severity, parts ...string) bool {
	for _, f := range r.Findings {
		ok := f.Severity == s
		for _, p := range parts {
			ok = ok && strings.Contains(f.Error(), p)
		}
		if ok {
			return true
		}
	}
	return false
}

func TestCheck(t *testing.T) {
	c := server().ForTest(t)
	cfg := base(t, perResource)
	s := connect(t, cfg)
	r, err := cassandra.Check(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r)
	if r.Err() != nil || len(r.Unchecked) > 0 {
		t.Errorf("a sound cluster: %v, not checked: %q", r.Err(), r.Unchecked)
	}
	if len(r.Nodes) != len(c.Addresses()) {
		t.Fatalf("%d nodes, want %d", len(r.Nodes), len(c.Addresses()))
	}
	for _, n := range r.Nodes {
		if n.Settings["paxos_variant"] == "" || n.DataCenter != dataCenter || !strings.Contains(n.Version, ".") {
			t.Errorf("node %+v", n)
		}
		if n.Settings["commitlog_sync"] == "periodic" && !has(r, cassandra.Warning, n.Address, "commitlog_sync") {
			t.Errorf("no warning of commitlog_sync of %s", n.Address)
		}
	}

	// The same through a session that does not have our policy: it says so, and
	// reaches what it reaches.
	foreign, err := plain(c).CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	slow := cfg
	slow.Timing.TTL, slow.Timing.RequestTimeout = 10*time.Second, 1500*time.Millisecond
	r, err = cassandra.Check(t.Context(), foreign, slow)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r)
	if !has(r, cassandra.Warning, "session", "Connect") || r.Err() != nil {
		t.Errorf("a foreign session:\n%s", r)
	}
	reached := 0
	for _, n := range r.Nodes {
		if n.Settings != nil {
			reached++
		}
	}
	if reached+len(r.Unchecked) != len(r.Nodes) || reached == 0 {
		t.Errorf("%d nodes reached, not checked: %q", reached, r.Unchecked)
	}
	if !has(r, cassandra.Warning, "cas_contention_timeout", "RequestTimeout") || !has(r, cassandra.Warning, "native_transport_timeout", "TTL") {
		t.Errorf("timings below the servers' own:\n%s", r)
	}

	local := cfg
	local.Serial, local.DataCenter = gocql.LocalSerial, "elsewhere"
	r, err = cassandra.Check(t.Context(), s, local)
	if err != nil {
		t.Fatal(err)
	}
	if !has(r, cassandra.Error, "no replica in DataCenter") || !has(r, cassandra.Error, "configured for data centre") || !has(r, cassandra.Error, "Serial") {
		t.Errorf("another data centre:\n%s", r)
	}
}
