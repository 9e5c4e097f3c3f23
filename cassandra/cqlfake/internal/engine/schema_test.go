package engine

import "maps"

// defineSchemaTables makes the tables of system_schema that the tests look at, as
// the server around the engine does.
func defineSchemaTables(e *Engine) {
	text, integer := "text", "int"
	e.Define("system_schema", "keyspaces", []ColumnDef{
		{Name: "keyspace_name", CQL: text, Kind: "partition_key"}, {Name: "durable_writes", CQL: "boolean"},
		{Name: "replication", CQL: "frozen<map<text, text>>"},
	}, func() (rows []map[string]any) {
		for _, k := range e.Schema().Keyspaces {
			rows = append(rows, map[string]any{"keyspace_name": k.Name, "durable_writes": k.Durable, "replication": k.Replication})
		}
		return rows
	})
	columns := []ColumnDef{
		{Name: "keyspace_name", CQL: text, Kind: "partition_key"}, {Name: "table_name", CQL: text, Kind: "clustering"},
		{Name: "caching", CQL: "frozen<map<text, text>>"}, {Name: "compaction", CQL: "frozen<map<text, text>>"},
		{Name: "compression", CQL: "frozen<map<text, text>>"}, {Name: "speculative_retry", CQL: text}, {Name: "read_repair", CQL: text},
		{Name: "additional_write_policy", CQL: text}, {Name: "comment", CQL: text}, {Name: "gc_grace_seconds", CQL: integer},
		{Name: "default_time_to_live", CQL: integer}, {Name: "memtable_flush_period_in_ms", CQL: integer},
	}
	e.Define("system_schema", "tables", columns, func() (rows []map[string]any) {
		for _, k := range e.Schema().Keyspaces {
			for _, t := range k.Tables {
				row := maps.Clone(t.Options)
				row["keyspace_name"], row["table_name"] = k.Name, t.Name
				rows = append(rows, row)
			}
		}
		return rows
	})
	e.Define("system_schema", "columns", []ColumnDef{
		{Name: "keyspace_name", CQL: text, Kind: "partition_key"}, {Name: "table_name", CQL: text, Kind: "clustering"},
		{Name: "column_name", CQL: text, Kind: "clustering"}, {Name: "kind", CQL: text}, {Name: "position", CQL: integer},
		{Name: "clustering_order", CQL: text}, {Name: "type", CQL: text},
	}, func() (rows []map[string]any) {
		for _, k := range e.Schema().Keyspaces {
			for _, t := range k.Tables {
				for _, c := range t.Columns {
					order := "none"
					if c.Kind == "clustering" {
						order = map[bool]string{false: "asc", true: "desc"}[c.Desc]
					}
					rows = append(rows, map[string]any{"keyspace_name": k.Name, "table_name": t.Name, "column_name": c.Name,
						"kind": c.Kind, "position": c.Position, "clustering_order": order, "type": c.CQL})
				}
			}
		}
		return rows
	})
}
