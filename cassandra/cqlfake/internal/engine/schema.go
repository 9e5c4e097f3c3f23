package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type column struct {
	name string
	typ  Type
	kind string
	pos  int // in the partition key or the clustering, else -1
	desc bool
	id   int // of its cells; a column that is dropped and added again gets another
}

func (c *column) isKey() bool    { return c.kind == "partition_key" || c.kind == "clustering" }
func (c *column) isStatic() bool { return c.kind == "static" }

// compare orders values of a clustering column.
func (c *column) compare(a, b []byte) int {
	if c.desc {
		a, b = b, a
	}
	return c.typ.compare(a, b)
}

type table struct {
	keyspace, name   string
	id               [16]byte
	columns          []*column // in the order of SELECT *
	byName           map[string]*column
	pk, ck           []*column
	statics, regular []*column // by name
	options          map[string]any
	rows             func() []map[string]any // virtual
	generation       int                     // grows with every change of the columns
	nextID           int
	data             *data
}

func (t *table) full() string { return t.keyspace + "." + t.name }

// arrange sorts the columns after a change.
func (t *table) arrange(columns []*column) {
	t.generation++
	t.pk, t.ck, t.statics, t.regular = nil, nil, nil, nil
	t.byName = map[string]*column{}
	for _, c := range columns {
		t.byName[c.name] = c
		switch c.kind {
		case "partition_key":
			t.pk = append(t.pk, c)
		case "clustering":
			t.ck = append(t.ck, c)
		case "static":
			t.statics = append(t.statics, c)
		default:
			t.regular = append(t.regular, c)
		}
	}
	byPos := func(a, b *column) int { return cmp.Compare(a.pos, b.pos) }
	byName := func(a, b *column) int { return cmp.Compare(a.name, b.name) }
	slices.SortFunc(t.pk, byPos)
	slices.SortFunc(t.ck, byPos)
	slices.SortFunc(t.statics, byName)
	slices.SortFunc(t.regular, byName)
	t.columns = slices.Concat(t.pk, t.ck, t.statics, t.regular)
}

func (t *table) newColumn(d ColumnDef) *column {
	t.nextID++
	return &column{name: d.Name, typ: d.Type, kind: d.Kind, pos: d.Position, desc: d.Desc, id: t.nextID - 1}
}

func (t *table) hasCounter() bool {
	return slices.ContainsFunc(t.columns, func(c *column) bool { return c.typ.ID == TypeCounter })
}

func (t *table) defaultTTL() int64 {
	n, _ := t.options["default_time_to_live"].(int32)
	return int64(n)
}

type keyspace struct {
	name        string
	durable     bool
	replication map[string]string
	tables      map[string]*table
}

func (k *keyspace) virtual() bool {
	for _, t := range k.tables {
		if t.rows == nil {
			return false
		}
	}
	return len(k.tables) > 0
}

// table finds a table; ks is the keyspace of the connection.
func (e *Engine) table(n name, ks string) *table {
	if n.keyspace == "" {
		n.keyspace = ks
	}
	if n.keyspace == "" {
		panic(invalid("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"))
	}
	k := e.spaces[n.keyspace]
	if k == nil {
		panic(invalid("keyspace %s does not exist", n.keyspace))
	}
	t := k.tables[n.table]
	if t == nil {
		panic(invalid("table %s does not exist", n.table))
	}
	return t
}

func (t *table) column(name string) *column {
	c := t.byName[name]
	if c == nil {
		panic(invalid("Undefined column name %s in table %s", name, t.full()))
	}
	return c
}

// Define adds a table whose content is computed whenever it is read; it creates
// the keyspace if need be, and replaces a table of that name. rows returns maps by
// column name with values that [Encode] takes; a missing one is null. rows is
// called without the engine's lock: it may call Schema, and must be safe for
// concurrent use. Such a table cannot be written to, altered or dropped. Define
// panics on a column type that is none: that is a fault of the program.
func (e *Engine) Define(keyspaceName, tableName string, columns []ColumnDef, rows func() []map[string]any) {
	t := &table{keyspace: keyspaceName, name: tableName, id: e.opts.NewUUID(), options: defaultOptions(), rows: rows}
	var list []*column
	positions := map[string]int{}
	for _, d := range columns {
		if d.CQL != "" {
			typ, err := ParseType(d.CQL)
			if err != nil {
				panic(fmt.Sprintf("cqlfake: column %s of %s.%s: %v", d.Name, keyspaceName, tableName, err))
			}
			d.Type = typ
		}
		d.Position = -1
		switch d.Kind {
		case "":
			d.Kind = "regular"
		case "partition_key", "clustering":
			d.Position = positions[d.Kind]
			positions[d.Kind]++
		}
		list = append(list, t.newColumn(d))
	}
	t.arrange(list)
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.spaces[keyspaceName]
	if k == nil {
		k = &keyspace{name: keyspaceName, durable: true, tables: map[string]*table{},
			replication: map[string]string{"class": "org.apache.cassandra.locator.LocalStrategy"}}
		e.spaces[keyspaceName] = k
	}
	k.tables[tableName] = t
}

// Schema returns a snapshot of the schema.
func (e *Engine) Schema() Schema {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Schema{Version: e.version}
	for _, kn := range slices.Sorted(maps.Keys(e.spaces)) {
		k := e.spaces[kn]
		ks := Keyspace{Name: kn, Durable: k.durable, Replication: maps.Clone(k.replication), Virtual: k.virtual()}
		for _, tn := range slices.Sorted(maps.Keys(k.tables)) {
			t := k.tables[tn]
			out := Table{Keyspace: kn, Name: tn, ID: t.id, Options: maps.Clone(t.options), Virtual: t.rows != nil}
			for _, c := range t.columns {
				out.Columns = append(out.Columns, ColumnDef{Name: c.name, Type: c.typ, CQL: c.typ.String(), Kind: c.kind, Position: c.pos, Desc: c.desc})
			}
			ks.Tables = append(ks.Tables, out)
		}
		s.Keyspaces = append(s.Keyspaces, ks)
	}
	return s
}

const compactionPackage = "org.apache.cassandra.db.compaction."

// defaultOptions are those of a table that names none, as 5.0 shows them.
func defaultOptions() map[string]any {
	return map[string]any{
		"additional_write_policy": "99p", "allow_auto_snapshot": true, "bloom_filter_fp_chance": 0.01, "cdc": nil, "comment": "",
		"caching":          map[string]string{"keys": "ALL", "rows_per_partition": "NONE"},
		"compaction":       map[string]string{"class": compactionPackage + "SizeTieredCompactionStrategy", "max_threshold": "32", "min_threshold": "4"},
		"compression":      map[string]string{"chunk_length_in_kb": "16", "class": "org.apache.cassandra.io.compress.LZ4Compressor"},
		"crc_check_chance": 1.0, "dclocal_read_repair_chance": 0.0, "default_time_to_live": int32(0),
		"extensions": map[string][]byte{}, "gc_grace_seconds": int32(864000), "incremental_backups": true, "max_index_interval": int32(2048),
		"memtable": "", "memtable_flush_period_in_ms": int32(0), "min_index_interval": int32(128), "read_repair": "BLOCKING",
		"read_repair_chance": 0.0, "speculative_retry": "99p",
	}
}

// hidden are options that CQL cannot set any more.
var hiddenOptions = map[string]bool{"dclocal_read_repair_chance": true, "read_repair_chance": true, "extensions": true}

// setOptions applies WITH to a copy of the options.
func setOptions(old map[string]any, list []property) map[string]any {
	opts := maps.Clone(old)
	seen := map[string]bool{}
	for _, p := range list {
		if seen[p.key] {
			panic(syntax("Multiple definitions for property '%s'", p.key))
		}
		seen[p.key] = true
		if p.key == "id" {
			panic(unsupported("WITH id"))
		}
		before, ok := opts[p.key]
		if !ok || hiddenOptions[p.key] {
			panic(syntax("Unknown property '%s'", p.key))
		}
		opts[p.key] = optionValue(p, before)
	}
	return opts
}

func optionValue(p property, before any) any {
	text, isText := p.value.(string)
	m, _ := p.value.(map[string]string)
	if _, wantsMap := before.(map[string]string); wantsMap == isText {
		if wantsMap {
			panic(syntax("Invalid value for property '%s'. It should be a map", p.key))
		}
		panic(syntax("Invalid value for property '%s'. It should be a string", p.key))
	}
	switch before.(type) {
	case map[string]string:
		return mapOption(p.key, m)
	case int32:
		n, err := strconv.ParseInt(text, 10, 32)
		switch {
		case err != nil:
			panic(syntax("Invalid integer value %s for '%s'", text, p.key))
		case n < 0, p.key == "default_time_to_live" && n > maxTTL:
			panic(configuration("%s must be greater than or equal to 0 (got %s)", p.key, text))
		}
		return int32(n)
	case float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f != f || f < 0 || f > 1 {
			panic(configuration("%s must be larger than 0 and smaller than or equal to 1 (got %s)", p.key, text))
		}
		return f
	case bool:
		return strings.EqualFold(text, "true")
	case nil: // cdc, null until it is set
		return strings.EqualFold(text, "true")
	}
	switch p.key {
	case "read_repair":
		text = strings.ToUpper(text)
		if text != "BLOCKING" && text != "NONE" {
			panic(&Error{Code: codeServer, Message: "java.lang.IllegalArgumentException: No enum constant ReadRepairStrategy." + text})
		}
	case "speculative_retry", "additional_write_policy":
		lower := strings.ToLower(text)
		switch {
		case lower == "none" || lower == "never":
			return "NEVER"
		case lower == "always":
			return "ALWAYS"
		case strings.HasSuffix(lower, "percentile"):
			return strings.TrimSuffix(lower, "percentile") + "p"
		case strings.HasSuffix(lower, "p"), strings.HasSuffix(lower, "ms"):
			return lower
		default:
			panic(configuration("Invalid value %s for option '%s'", text, p.key))
		}
	}
	return text
}

func mapOption(key string, m map[string]string) map[string]string {
	out := maps.Clone(m)
	class, hasClass := m["class"]
	switch key {
	case "caching":
		out = map[string]string{"keys": "ALL", "rows_per_partition": "NONE"}
		for k, v := range m {
			if _, ok := out[k]; !ok {
				panic(configuration("Invalid caching sub-options %s: only [keys, rows_per_partition] are allowed", k))
			}
			out[k] = strings.ToUpper(v)
		}
	case "compaction":
		if !hasClass {
			panic(configuration("Missing sub-option 'class' for the 'compaction' option"))
		}
		if !strings.Contains(class, ".") {
			out["class"] = compactionPackage + class
		}
		if strings.HasSuffix(class, "SizeTieredCompactionStrategy") || strings.HasSuffix(class, "LeveledCompactionStrategy") || strings.HasSuffix(class, "TimeWindowCompactionStrategy") {
			for k, v := range map[string]string{"max_threshold": "32", "min_threshold": "4"} {
				if _, ok := out[k]; !ok {
					out[k] = v
				}
			}
		} else if !strings.HasSuffix(class, "UnifiedCompactionStrategy") {
			panic(configuration("Unable to find compaction strategy class '%s%s'", compactionPackage, class))
		}
	case "compression":
		if hasClass && !strings.Contains(class, ".") {
			out["class"] = "org.apache.cassandra.io.compress." + class
		}
	}
	return out
}
