package cqlfake

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenure-go/tenure/cassandra/cqlfake/internal/engine"
)

// systemTables are the tables that drivers and tools read, as the tested versions
// have them: columns in the order of the primary key, a star before those of the
// partition key and a plus before those of the clustering.
var systemTables = map[string]string{
	"system.local": "*key text, bootstrapped text, broadcast_address inet, broadcast_port int, cluster_name text, cql_version text, data_center text, " +
		"gossip_generation int, host_id uuid, listen_address inet, listen_port int, native_protocol_version text, partitioner text, rack text, " +
		"release_version text, rpc_address inet, rpc_port int, schema_version uuid, tokens set<text>, truncated_at map<uuid; blob>",
	"system.peers": "*peer inet, data_center text, host_id uuid, preferred_ip inet, rack text, release_version text, rpc_address inet, schema_version uuid, tokens set<text>",
	"system.peers_v2": "*peer inet, +peer_port int, data_center text, host_id uuid, native_address inet, native_port int, preferred_ip inet, preferred_port int, " +
		"rack text, release_version text, schema_version uuid, tokens set<text>",
	"system_schema.keyspaces": "*keyspace_name text, durable_writes boolean, replication frozen<map<text; text>>",
	"system_schema.tables":    "*keyspace_name text, +table_name text, " + tableOptions + ", flags frozen<set<text>>",
	"system_schema.views": "*keyspace_name text, +view_name text, " + tableOptions + ", base_table_id uuid, base_table_name text, " +
		"include_all_columns boolean, where_clause text",
	"system_schema.columns":         "*keyspace_name text, +table_name text, +column_name text, clustering_order text, column_name_bytes blob, kind text, position int, type text",
	"system_schema.dropped_columns": "*keyspace_name text, +table_name text, +column_name text, dropped_time timestamp, kind text, type text",
	"system_schema.column_masks": "*keyspace_name text, +table_name text, +column_name text, function_argument_nulls frozen<list<boolean>>, " +
		"function_argument_types frozen<list<text>>, function_argument_values frozen<list<text>>, function_keyspace text, function_name text",
	"system_schema.indexes":  "*keyspace_name text, +table_name text, +index_name text, kind text, options frozen<map<text; text>>",
	"system_schema.triggers": "*keyspace_name text, +table_name text, +trigger_name text, options frozen<map<text; text>>",
	"system_schema.types":    "*keyspace_name text, +type_name text, field_names frozen<list<text>>, field_types frozen<list<text>>",
	"system_schema.functions": "*keyspace_name text, +function_name text, +argument_types frozen<list<text>>, argument_names frozen<list<text>>, body text, " +
		"called_on_null_input boolean, language text, return_type text",
	"system_schema.aggregates": "*keyspace_name text, +aggregate_name text, +argument_types frozen<list<text>>, final_func text, initcond text, " +
		"return_type text, state_func text, state_type text",
	"system_virtual_schema.keyspaces": "*keyspace_name text",
	"system_virtual_schema.tables":    "*keyspace_name text, +table_name text, comment text",
	"system_virtual_schema.columns":   "*keyspace_name text, +table_name text, +column_name text, clustering_order text, column_name_bytes blob, kind text, position int, type text",
	"system_views.settings":           "*name text, value text",
}

const tableOptions = "additional_write_policy text, allow_auto_snapshot boolean, bloom_filter_fp_chance double, caching frozen<map<text; text>>, cdc boolean, comment text, " +
	"compaction frozen<map<text; text>>, compression frozen<map<text; text>>, crc_check_chance double, dclocal_read_repair_chance double, default_time_to_live int, " +
	"extensions frozen<map<text; blob>>, gc_grace_seconds int, id uuid, incremental_backups boolean, max_index_interval int, memtable text, " +
	"memtable_flush_period_in_ms int, min_index_interval int, read_repair text, read_repair_chance double, speculative_retry text"

// since50 are the tables and columns that 4.1 does not have.
var since50 = []string{"system_schema.column_masks", "allow_auto_snapshot", "incremental_backups"}

func (c *Cluster) defineSystem() {
	rows := map[string]func() []map[string]any{
		"system.local":                    func() []map[string]any { return []map[string]any{c.localRow()} },
		"system.peers":                    c.peerRows,
		"system.peers_v2":                 c.peerRows,
		"system_schema.keyspaces":         func() []map[string]any { return c.keyspaceRows(false) },
		"system_schema.tables":            func() []map[string]any { return c.tableRows(false) },
		"system_schema.columns":           func() []map[string]any { return c.columnRows(false) },
		"system_virtual_schema.keyspaces": func() []map[string]any { return c.keyspaceRows(true) },
		"system_virtual_schema.tables":    func() []map[string]any { return c.tableRows(true) },
		"system_virtual_schema.columns":   func() []map[string]any { return c.columnRows(true) },
		"system_views.settings":           c.settingRows,
	}
	for _, name := range slices.Sorted(maps.Keys(systemTables)) {
		if c.lacks(name) {
			continue
		}
		content := rows[name]
		if content == nil {
			content = func() []map[string]any { return nil }
		}
		keyspace, table, _ := strings.Cut(name, ".")
		c.engine.Define(keyspace, table, c.columns(systemTables[name]), content)
	}
}

func (c *Cluster) lacks(name string) bool { return c.release() < 5 && slices.Contains(since50, name) }

// columns reads a value of systemTables.
func (c *Cluster) columns(spec string) []engine.ColumnDef {
	var keys, others []engine.ColumnDef
	for _, part := range strings.Split(spec, ", ") {
		name, cql, _ := strings.Cut(part, " ")
		def := engine.ColumnDef{Name: strings.Trim(name, "*+"), CQL: strings.ReplaceAll(cql, ";", ",")}
		switch {
		case c.lacks(def.Name):
			continue
		case name[0] == '*':
			def.Kind = "partition_key"
		case name[0] == '+':
			def.Kind = "clustering"
		default:
			others = append(others, def)
			continue
		}
		keys = append(keys, def)
	}
	slices.SortFunc(others, func(a, b engine.ColumnDef) int { return strings.Compare(a.Name, b.Name) })
	return append(keys, others...)
}

const (
	clusterName  = "cqlfake"
	partitioner  = "org.apache.cassandra.dht.Murmur3Partitioner"
	internalPort = 7000
	rack         = "rack1"
)

func (c *Cluster) localRow() map[string]any {
	n := c.local
	cql := cqlVersion(c.release())
	return map[string]any{
		"key": "local", "bootstrapped": "COMPLETED", "broadcast_address": n.addr.IP, "broadcast_port": internalPort, "cluster_name": clusterName,
		"cql_version": cql, "data_center": n.DataCenter(), "gossip_generation": 1, "host_id": n.id, "listen_address": n.addr.IP,
		"listen_port": internalPort, "native_protocol_version": fmt.Sprint(protocolVersion), "partitioner": partitioner, "rack": rack,
		"release_version": c.opts.Version, "rpc_address": n.addr.IP, "rpc_port": n.addr.Port, "schema_version": c.version.Load(),
		"tokens": []string{n.token()},
	}
}

// peerRows are those of both tables of peers.
func (c *Cluster) peerRows() []map[string]any {
	var rows []map[string]any
	for _, n := range c.nodes {
		if n == c.local {
			continue
		}
		rows = append(rows, map[string]any{
			"peer": n.addr.IP, "peer_port": internalPort, "data_center": n.DataCenter(), "host_id": n.id, "native_address": n.addr.IP,
			"native_port": n.addr.Port, "preferred_ip": n.addr.IP, "preferred_port": internalPort, "rack": rack, "release_version": c.opts.Version,
			"rpc_address": n.addr.IP, "schema_version": c.version.Load(), "tokens": []string{n.token()},
		})
	}
	return rows
}

// keyspaces returns those that are virtual on a server, or those that are not.
// To the engine the system's own are all virtual.
func (c *Cluster) keyspaces(virtual bool) []engine.Keyspace {
	var list []engine.Keyspace
	for _, k := range c.engine.Schema().Keyspaces {
		if virtual == (k.Name == "system_views" || k.Name == "system_virtual_schema") {
			if k.Virtual {
				k.Durable, k.Replication = true, map[string]string{"class": "org.apache.cassandra.locator.LocalStrategy"}
			}
			list = append(list, k)
		}
	}
	return list
}

func (c *Cluster) keyspaceRows(virtual bool) []map[string]any {
	var rows []map[string]any
	for _, k := range c.keyspaces(virtual) {
		rows = append(rows, map[string]any{"keyspace_name": k.Name, "durable_writes": k.Durable, "replication": k.Replication})
	}
	return rows
}

func (c *Cluster) tableRows(virtual bool) []map[string]any {
	var rows []map[string]any
	for _, k := range c.keyspaces(virtual) {
		for _, t := range k.Tables {
			row := map[string]any{
				"id": t.ID, "flags": []string{"compound"}, "extensions": map[string][]byte{}, "comment": "",
			}
			maps.Copy(row, t.Options)
			row["keyspace_name"], row["table_name"] = k.Name, t.Name
			rows = append(rows, row)
		}
	}
	return rows
}

func (c *Cluster) columnRows(virtual bool) []map[string]any {
	var rows []map[string]any
	for _, k := range c.keyspaces(virtual) {
		for _, t := range k.Tables {
			for _, col := range t.Columns {
				order := "none"
				if col.Kind == "clustering" {
					order = "asc"
					if col.Desc {
						order = "desc"
					}
				}
				cql := col.CQL
				if cql == "" {
					cql = col.Type.String()
				}
				rows = append(rows, map[string]any{
					"keyspace_name": k.Name, "table_name": t.Name, "column_name": col.Name, "clustering_order": order,
					"column_name_bytes": []byte(col.Name), "kind": col.Kind, "position": col.Position, "type": cql,
				})
			}
		}
	}
	return rows
}

// settingRows are those of the node that is asked: all have the same.
func (c *Cluster) settingRows() []map[string]any {
	m := maps.Clone(settings)
	if c.release() < 5 {
		maps.Copy(m, settings41)
	}
	m["native_transport_port"] = fmt.Sprint(c.nodes[0].addr.Port)
	if len(c.opts.Users) > 0 {
		m["authenticator"] = "PasswordAuthenticator"
	}
	maps.Copy(m, c.opts.Settings)
	var rows []map[string]any
	for _, name := range slices.Sorted(maps.Keys(m)) {
		rows = append(rows, map[string]any{"name": name, "value": m[name]})
	}
	return rows
}

// settings are those about requests, of some 600 that a server has, at its defaults;
// but for Paxos v2, which every cluster of lightweight transactions should have.
var settings = map[string]string{
	"authenticator": "AllowAllAuthenticator", "batch_size_fail_threshold": "50KiB", "batch_size_warn_threshold": "5KiB",
	"cas_contention_timeout": "1800ms", "cluster_name": clusterName, "commitlog_sync": "periodic", "counter_write_request_timeout": "5000ms",
	"max_mutation_size": "4096KiB", "native_transport_max_frame_size": "16MiB", "native_transport_timeout": "12s", "num_tokens": "1",
	"partitioner": partitioner, "paxos_variant": "v2", "range_request_timeout": "10000ms", "read_request_timeout": "5000ms",
	"request_timeout": "10000ms", "truncate_request_timeout": "60000ms", "write_request_timeout": "2000ms",
}

// settings41 are those that 4.1 shows in another form.
var settings41 = map[string]string{"native_transport_timeout": "12000ms"}
