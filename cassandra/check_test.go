package cassandra

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
)

func checker(change func(*Config)) *admin {
	cfg := good()
	if change != nil {
		change(&cfg)
	}
	return &admin{cfg: cfg.withDefaults()}
}

// wantFindings compares findings by severity and a part of the problem.
func wantFindings(t *testing.T, r Report, want map[string]Severity) {
	t.Helper()
	left := map[string]Severity{}
	for part, s := range want {
		left[part] = s
	}
next:
	for _, f := range r.Findings {
		for part, s := range left {
			if strings.Contains(f.Subject+": "+f.Problem, part) && f.Severity == s {
				delete(left, part)
				continue next
			}
		}
		t.Errorf("unexpected %v: %v", f.Severity, f)
	}
	for part, s := range left {
		t.Errorf("no %v about %q in:\n%v", s, part, r)
	}
}

func nodesIn(dcs ...string) []Node {
	var list []Node
	for i, dc := range dcs {
		list = append(list, Node{ID: fmt.Sprint(i), Address: fmt.Sprint("10.0.0.", i), DataCenter: dc, Version: "5.0.6"})
	}
	return list
}

func TestCheckKeyspace(t *testing.T) {
	simple := func(n string) map[string]string {
		return map[string]string{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": n}
	}
	network := func(pairs ...string) map[string]string {
		m := map[string]string{"class": "org.apache.cassandra.locator.NetworkTopologyStrategy"}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	local := func(c *Config) { c.Serial, c.DataCenter = gocql.LocalSerial, "a" }
	six := nodesIn("a", "a", "a", "b", "b", "b")
	for _, c := range []struct {
		name        string
		replication map[string]string
		nodes       []Node
		change      func(*Config)
		want        map[string]Severity
	}{
		{"three", network("a", "3"), nodesIn("a", "a", "a"), nil, nil},
		{"simple three", simple("3"), nodesIn("a", "a", "a"), nil, nil},
		{"one", network("a", "1"), nodesIn("a", "a"), nil, map[string]Severity{"one replica": Error}},
		{"one is accepted", simple("1"), nodesIn("a"), func(c *Config) { c.AllowSingleReplica = true }, nil},
		{"one full, one transient", network("a", "2/1"), nodesIn("a", "a"), nil, map[string]Severity{"one replica": Error}},
		{"two", network("a", "2"), nodesIn("a", "a"), nil, map[string]Severity{"two replicas": Warning}},
		{"no quorum of nodes", network("a", "3"), nodesIn("a"), nil, map[string]Severity{"3 replicas in a and finds 1 node": Error}},
		{"two data centres", network("a", "3", "b", "3"), six, nil, map[string]Severity{"6 replicas in 2 data centres": Warning}},
		{"local", network("a", "3", "b", "3"), six, local, nil},
		{"local, one there", network("a", "1", "b", "3"), six, local, map[string]Severity{"one replica": Error}},
		{"local, others short of nodes", network("a", "3", "b", "5"), nodesIn("a", "a", "a", "b"), local, nil},
		{"local, none there", network("b", "3"), six, local, map[string]Severity{`no replica in DataCenter "a"`: Error}},
		{"local, simple", simple("3"), six, local, map[string]Severity{"SimpleStrategy": Error}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Report
			checker(c.change).checkKeyspace(&r, seen{nodes: c.nodes, keyspace: keyspaceInfo{found: true, durable: true, replication: c.replication}})
			wantFindings(t, r, c.want)
		})
	}
	var r Report
	checker(nil).checkKeyspace(&r, seen{keyspace: keyspaceInfo{found: true, replication: map[string]string{"class": "Odd"}}})
	wantFindings(t, r, map[string]Severity{"durable_writes": Error})
	if len(r.Unchecked) != 1 || !strings.Contains(r.String(), "not checked: replication") {
		t.Errorf("an unknown strategy: %v", r)
	}
}

// soundTable is the table as CreateSchema makes it.
func soundTable(name string) tableInfo {
	t := tableInfo{speculative: "99p", repair: "BLOCKING", gcGrace: 864000, columns: map[string]columnInfo{},
		caching: map[string]string{"keys": "ALL", "rows_per_partition": "NONE"}, compaction: map[string]string{"class": "LeveledCompactionStrategy"}}
	for c, info := range columns[name] {
		t.columns[c] = info
	}
	return t
}

func TestCheckTable(t *testing.T) {
	for _, c := range []struct {
		name, table string
		spoil       func(*tableInfo)
		sound       bool
		want        map[string]Severity
	}{
		{"as created", SessionTable, func(*tableInfo) {}, true, nil},
		{"default TTL", OwnershipTable, func(t *tableInfo) { t.defaultTTL = 60 }, true, map[string]Severity{"default_time_to_live is 60": Error}},
		{"time windows", OwnershipTable, func(t *tableInfo) { t.compaction["class"] = "a.b.TimeWindowCompactionStrategy" }, true, map[string]Severity{"TimeWindow": Error}},
		{"missing and wrong columns", OwnershipTable, func(t *tableInfo) {
			delete(t.columns, "attempt")
			t.columns["fence"] = columnInfo{"regular", "int"}
		}, false, map[string]Severity{"column attempt is missing": Error, "column fence is regular int, not static bigint": Error}},
		{"a column too many", MetaTable, func(t *tableInfo) { t.columns["x"] = columnInfo{"regular", "text"} }, true, map[string]Severity{"column x": Warning}},
		{"caches, read repair, speculation", SessionTable, func(t *tableInfo) {
			t.caching["rows_per_partition"], t.repair, t.speculative = "ALL", "NONE", "NEVER"
		}, true, map[string]Severity{"caching": Warning, "read_repair": Warning, "speculative_retry": Warning}},
		{"grace of sessions", SessionTable, func(t *tableInfo) { t.gcGrace = 5 }, true, map[string]Severity{"gc_grace_seconds is 5": Warning}},
		{"grace of grants", OwnershipTable, func(t *tableInfo) { t.gcGrace = 3600 }, true, map[string]Severity{"gc_grace_seconds is 3600": Warning}},
	} {
		t.Run(c.name, func(t *testing.T) {
			info := soundTable(c.table)
			c.spoil(&info)
			var r Report
			if got := checker(nil).checkTable(&r, seen{tables: map[string]tableInfo{c.table: info}}, c.table); got != c.sound {
				t.Errorf("sound: %v, want %v", got, c.sound)
			}
			wantFindings(t, r, c.want)
		})
	}
	var r Report
	if checker(nil).checkTable(&r, seen{}, SessionTable) {
		t.Error("a missing table is sound")
	}
	wantFindings(t, r, map[string]Severity{"does not exist": Error})
	var f Finding
	if err := r.Err(); !errors.Is(err, ownership.ErrInvalid) || !errors.As(err, &f) || !strings.Contains(f.Remedy, "CreateSchema") {
		t.Errorf("%v; want a Finding that says what to do", r.Err())
	}
	if (Report{Nodes: nodesIn("a")}).Err() != nil {
		t.Error("nothing found, and yet an error")
	}
	for want, r := range map[string]Report{
		"nothing was checked\n":                  {},
		"1 node, nothing to complain about\n":    {Nodes: nodesIn("a")},
		"2 nodes, nothing to complain about\n":   {Nodes: nodesIn("a", "a")},
		"not checked: clocks of node 10.0.0.1\n": {Unchecked: []string{"clocks of node 10.0.0.1"}},
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCheckNodes(t *testing.T) {
	a := checker(nil)
	ms := func(low, high int) interval {
		return interval{low: time.Duration(low) * time.Millisecond, high: time.Duration(high) * time.Millisecond, known: true}
	}
	node := func(i int, clock interval, settings ...string) Node {
		n := nodesIn("a", "a", "a")[i]
		n.clock, n.Settings = clock, map[string]string{}
		for j := 0; j < len(settings); j += 2 {
			n.Settings[settings[j]] = settings[j+1]
		}
		return n
	}
	r := Report{Nodes: []Node{
		node(0, ms(-3, 4), "paxos_variant", "v2", "commitlog_sync", "batch", "cas_contention_timeout", "1800ms", "native_transport_timeout", "12s"),
		node(1, ms(700, 720), "paxos_variant", "v1_without_linearizable_reads", "commitlog_sync", "periodic", "cas_contention_timeout", "2s", "native_transport_timeout", "60s"),
		node(2, interval{}, "paxos_variant", "v1", "cas_contention_timeout", "1800"),
	}}
	for _, n := range r.Nodes {
		a.checkNode(&r, n)
	}
	a.checkClocks(&r)
	a.checkVariants(&r)
	wantFindings(t, r, map[string]Severity{
		"10.0.0.1: paxos_variant is v1_without_linearizable_reads": Error,
		"10.0.0.1: commitlog_sync is periodic":                     Warning,
		"10.0.0.1: cas_contention_timeout is 2s":                   Warning,
		"10.0.0.1: native_transport_timeout is 1m0s":               Warning,
		"10.0.0.2: paxos_variant is v1":                            Warning,
		"differ by at least 696ms":                                 Error,
		"paxos_variant differs":                                    Warning,
	})
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]version{"5.0.6": {5, 0}, "4.1.10-SNAPSHOT": {4, 1}, "4.0": {4, 0}, "6": {6, 0}, "x": {}} {
		if got := parseVersion(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	s := seen{nodes: []Node{{Version: "5.0.6"}, {Version: "4.1.10"}, {Version: "5.1.0"}}}
	if got := s.oldest(); got != (version{4, 1}) {
		t.Errorf("oldest %v", got)
	}
	for v, want := range map[version]string{{4, 1}: "LeveledCompactionStrategy", {5, 0}: "UnifiedCompactionStrategy"} {
		for table, cql := range createTables("ks", v) {
			for _, part := range []string{want, `"ks".` + table, "default_time_to_live = 0", "'rows_per_partition': 'NONE'", "99p", "BLOCKING"} {
				if !strings.Contains(cql, part) {
					t.Errorf("%v: %q is not in %s", v, part, cql)
				}
			}
		}
	}
	if got := createKeyspace("ks", map[string]int{"b": 2, "a'": 3}); !strings.Contains(got, `"ks" WITH replication = {'class': 'NetworkTopologyStrategy', 'a''': 3, 'b': 2}`) {
		t.Error(got)
	}
	if got := AddColumns("ks", "T"); got != `ALTER TABLE "ks"."T" ADD (fence bigint STATIC, fence_seq bigint STATIC, fence_batch uuid STATIC)` {
		t.Error(got)
	}
}
