package cassandra

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2/qb"
)

// version is a server's release, as far as anything depends on it.
type version struct{ major, minor int }

func parseVersion(s string) version {
	parts := strings.SplitN(s, ".", 3)
	var v version
	v.major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		v.minor, _ = strconv.Atoi(parts[1])
	}
	return v
}

func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

// seen is what the cluster tells of itself.
type seen struct {
	nodes    []Node
	keyspace keyspaceInfo
	tables   map[string]tableInfo
}

// keyspaceInfo is a row of system_schema.keyspaces.
type keyspaceInfo struct {
	found       bool
	durable     bool
	replication map[string]string
}

// tableInfo is a row of system_schema.tables, and its columns.
type tableInfo struct {
	defaultTTL, gcGrace   int
	speculative, repair   string
	caching, compaction   map[string]string
	columns               map[string]columnInfo
	partition, clustering []string // in order
}

type columnInfo struct{ kind, cql string }

// oldest returns the lowest version of any node.
func (s seen) oldest() version {
	var v version
	for i, n := range s.nodes {
		if w := parseVersion(n.Version); i == 0 || v.atLeast(w.major, w.minor) {
			v = w
		}
	}
	return v
}

// look reads the cluster's nodes, and the schema of the keyspace.
func (a *admin) look(ctx context.Context) (seen, error) {
	s := seen{tables: map[string]tableInfo{}}
	var err error
	if s.nodes, err = a.nodes(ctx); err != nil {
		return s, err
	}
	if s.keyspace, err = a.lookKeyspace(ctx); err != nil || !s.keyspace.found {
		return s, err
	}
	for _, name := range []string{SessionTable, OwnershipTable, MetaTable} {
		t, found, err := a.lookTable(ctx, a.cfg.Keyspace, name, s.oldest())
		if err != nil {
			return s, err
		}
		if found {
			s.tables[name] = t
		}
	}
	return s, nil
}

// nodeRow are the cells of system.local and system.peers.
type nodeRow struct {
	id            *gocql.UUID
	dc, release   *string
	address, peer *string
}

func (r *nodeRow) destinations() map[string]any {
	return map[string]any{"host_id": &r.id, "data_center": &r.dc, "release_version": &r.release, "broadcast_address": &r.address, "peer": &r.peer}
}

// nodes lists the cluster's nodes. What one node knows is two tables: itself and
// its peers; asked twice, different nodes may answer, so both are merged.
func (a *admin) nodes(ctx context.Context) ([]Node, error) {
	byID := map[string]Node{}
	add := func(table string, columns ...string) error {
		ans, err := ask(ctx, a, route{}, gocql.One, (*nodeRow).destinations, built(qb.Select(table).Columns(columns...)).bind(nil))
		if err != nil {
			return fmt.Errorf("listing the nodes: %w", err)
		}
		for _, r := range ans.rows {
			if r.id == nil || r.release == nil {
				continue // a peer that is only half known
			}
			address := orZero(r.address)
			if address == "" {
				address = orZero(r.peer)
			}
			byID[r.id.String()] = Node{ID: r.id.String(), Address: address, DataCenter: orZero(r.dc), Version: *r.release}
		}
		return nil
	}
	if err := add("system.peers", "host_id", "data_center", "release_version", "peer"); err != nil {
		return nil, err
	}
	peers := len(byID)
	for i := 0; i < tries*(peers+1) && len(byID) <= peers; i++ { // until the one answers that told of the others
		if err := add("system.local", "host_id", "data_center", "release_version", "broadcast_address"); err != nil {
			return nil, err
		}
	}
	return sortedNodes(byID), nil
}

type keyspaceRow struct {
	durable     *bool
	replication map[string]string
}

func (r *keyspaceRow) destinations() map[string]any {
	return map[string]any{"durable_writes": &r.durable, "replication": &r.replication}
}

func (a *admin) lookKeyspace(ctx context.Context) (keyspaceInfo, error) {
	ans, err := ask(ctx, a, route{}, gocql.One, (*keyspaceRow).destinations,
		built(qb.Select("system_schema.keyspaces").Columns("durable_writes", "replication").Where(qb.Eq("keyspace_name"))).
			bind(values{"keyspace_name": a.cfg.Keyspace}))
	if err != nil || len(ans.rows) == 0 {
		return keyspaceInfo{}, err
	}
	return keyspaceInfo{found: true, durable: orZero(ans.rows[0].durable), replication: ans.rows[0].replication}, nil
}

type tableRow struct {
	ttl, gcGrace        *int
	speculative, repair *string
	caching, compaction map[string]string
}

func (r *tableRow) destinations() map[string]any {
	return map[string]any{"default_time_to_live": &r.ttl, "gc_grace_seconds": &r.gcGrace, "speculative_retry": &r.speculative,
		"read_repair": &r.repair, "caching": &r.caching, "compaction": &r.compaction}
}

type columnRow struct {
	name, kind, cql *string
	position        *int
}

func (r *columnRow) destinations() map[string]any {
	return map[string]any{"column_name": &r.name, "kind": &r.kind, "type": &r.cql, "position": &r.position}
}

// lookTable reads one table's options and columns. It asks the server and not
// gocql's metadata, which may be a second old, ignores contexts and reads all
// tables of the keyspace.
func (a *admin) lookTable(ctx context.Context, keyspace, name string, oldest version) (t tableInfo, found bool, err error) {
	key := []qb.Cmp{qb.Eq("keyspace_name"), qb.Eq("table_name")}
	v := values{"keyspace_name": keyspace, "table_name": name}
	columns := []string{"default_time_to_live", "gc_grace_seconds", "speculative_retry", "caching", "compaction"}
	if oldest.atLeast(4, 0) {
		columns = append(columns, "read_repair")
	}
	ans, err := ask(ctx, a, route{}, gocql.One, (*tableRow).destinations,
		built(qb.Select("system_schema.tables").Columns(columns...).Where(key...)).bind(v))
	if err != nil || len(ans.rows) == 0 {
		return t, false, err
	}
	r := ans.rows[0]
	t = tableInfo{
		defaultTTL: orZero(r.ttl), gcGrace: orZero(r.gcGrace), speculative: orZero(r.speculative), repair: orZero(r.repair),
		caching: r.caching, compaction: r.compaction, columns: map[string]columnInfo{},
	}
	cols, err := ask(ctx, a, route{}, gocql.One, (*columnRow).destinations,
		built(qb.Select("system_schema.columns").Columns("column_name", "kind", "type", "position").Where(key...)).bind(v))
	if err != nil {
		return t, false, err
	}
	keys := map[string][]string{"partition_key": make([]string, len(cols.rows)), "clustering": make([]string, len(cols.rows))}
	for _, c := range cols.rows {
		t.columns[orZero(c.name)] = columnInfo{kind: orZero(c.kind), cql: orZero(c.cql)}
		if list := keys[orZero(c.kind)]; list != nil {
			list[orZero(c.position)] = orZero(c.name)
		}
	}
	t.partition, t.clustering = filled(keys["partition_key"]), filled(keys["clustering"])
	return t, true, nil
}

// filled returns what comes before the first empty string.
func filled(list []string) []string {
	for i, s := range list {
		if s == "" {
			return list[:i]
		}
	}
	return list
}

// settingRow are the cells of system_views.settings, and a server's clock.
type settingRow struct {
	name, value *string
	millis      *int64
}

func (r *settingRow) destinations() map[string]any {
	return map[string]any{"name": &r.name, "value": &r.value, "millis": &r.millis}
}

// settings of a node that matter to ownership.
var settings = []string{"paxos_variant", "commitlog_sync", "cas_contention_timeout", "native_transport_timeout"}

// inspect asks one node, or, under a foreign host policy, whichever answers, for
// its settings and its clock. It returns the node's id.
func (a *admin) inspect(ctx context.Context, id string) (Node, error) {
	r := route{only: id}
	n := Node{ID: id}
	ans, err := ask(ctx, a, r, gocql.One, (*settingRow).destinations,
		built(qb.Select("system_views.settings").Columns("name", "value").Where(qb.In("name"))).bind(values{"name": settings}))
	if err != nil {
		return n, err
	}
	n.ID, n.Settings = ans.host, map[string]string{}
	for _, row := range ans.rows {
		n.Settings[orZero(row.name)] = orZero(row.value)
	}
	before := time.Now()
	clock, err := ask(ctx, a, r, gocql.One, (*settingRow).destinations,
		built(qb.Select("system.local").Columns("toUnixTimestamp(now()) AS millis")).bind(nil))
	after := time.Now()
	if err != nil || len(clock.rows) == 0 || clock.host != n.ID {
		return n, err
	}
	// The server read its clock between before and after; its milliseconds are cut off.
	server := time.UnixMilli(orZero(clock.rows[0].millis))
	n.clock = interval{low: server.Sub(after), high: server.Add(time.Millisecond).Sub(before), known: true}
	return n, nil
}

// interval bounds how far a server's clock is ahead of ours.
type interval struct {
	low, high time.Duration
	known     bool
}

// apart returns by how much two clocks differ at least.
func (i interval) apart(j interval) time.Duration {
	if !i.known || !j.known {
		return 0
	}
	return max(i.low-j.high, j.low-i.high, 0)
}

// parseServerDuration reads a duration as a server's setting shows it: 1800ms,
// 12s, or, before 4.1, a plain number of milliseconds.
func parseServerDuration(s string) (time.Duration, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return time.Duration(n) * time.Millisecond, true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}
