package engine

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

var validName = regexp.MustCompile(`^\w{1,48}$`)

func (e *Engine) changed(change, target, ks, table string) Result {
	e.version = e.opts.NewUUID()
	return Result{Kind: SchemaChange, Change: Change{Change: change, Target: target, Keyspace: ks, Name: table}}
}

func (e *Engine) space(name string) *keyspace {
	k := e.spaces[name]
	if k != nil && k.virtual() {
		panic(&Error{Code: codeUnauthorized, Message: name + " keyspace is not user-modifiable."})
	}
	return k
}

func (e *Engine) createKeyspace(s *createKeyspace) Result {
	k := e.space(s.name)
	switch {
	case s.alter && k == nil && s.ifExists:
		return Result{Kind: Void}
	case s.alter && k == nil:
		panic(invalid("Keyspace '%s' doesn't exist", s.name))
	case !s.alter && k != nil && s.ifNotExists:
		return Result{Kind: Void}
	case !s.alter && k != nil:
		panic(&Error{Code: codeAlreadyExists, Message: "Cannot add existing keyspace \"" + s.name + "\"", Keyspace: s.name})
	case !validName.MatchString(s.name):
		panic(invalid("Keyspace name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got \"%s\")", s.name))
	}
	next := &keyspace{name: s.name, durable: true, tables: map[string]*table{}}
	if k != nil {
		next = &keyspace{name: s.name, durable: k.durable, replication: k.replication, tables: k.tables}
	}
	for _, p := range s.properties {
		text, _ := p.value.(string)
		m, isMap := p.value.(map[string]string)
		switch {
		case p.key == "durable_writes" && !isMap:
			next.durable = strings.EqualFold(text, "true")
		case p.key == "replication" && isMap:
			next.replication = replicationOf(m)
		case p.key == "replication" || p.key == "durable_writes":
			panic(syntax("Invalid value for property '%s'", p.key))
		default:
			panic(syntax("Unknown property '%s'", p.key))
		}
	}
	if next.replication == nil {
		panic(configuration("Missing mandatory option 'replication'"))
	}
	e.spaces[s.name] = next
	if s.alter {
		return e.changed("UPDATED", "KEYSPACE", s.name, "")
	}
	return e.changed("CREATED", "KEYSPACE", s.name, "")
}

func replicationOf(m map[string]string) map[string]string {
	const pkg = "org.apache.cassandra.locator."
	out := maps.Clone(m)
	class := strings.TrimPrefix(m["class"], pkg)
	switch class {
	case "":
		panic(configuration("Missing replication strategy class"))
	case "SimpleStrategy", "NetworkTopologyStrategy":
		if _, ok := m["replication_factor"]; !ok && class == "SimpleStrategy" {
			out["replication_factor"] = "1" // the server's default_keyspace_rf
		}
	default:
		panic(configuration("Unable to find replication strategy class '%s%s'", pkg, class))
	}
	for k, v := range m {
		if k != "class" && !regexp.MustCompile(`^\d{1,6}(/\d{1,6})?$`).MatchString(v) {
			panic(configuration("Replication factor must be numeric; found %s", v))
		}
	}
	out["class"] = pkg + class
	return out
}

func (e *Engine) createTable(s *createTable, ks string) Result {
	if s.table.keyspace == "" {
		s.table.keyspace = ks
	}
	if s.table.keyspace == "" {
		panic(invalid("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"))
	}
	k := e.space(s.table.keyspace)
	if k == nil {
		panic(invalid("Keyspace '%s' doesn't exist", s.table.keyspace))
	}
	if _, ok := k.tables[s.table.table]; ok {
		if s.ifNotExists {
			return Result{Kind: Void}
		}
		panic(&Error{Code: codeAlreadyExists, Message: "Cannot add already existing table \"" + s.table.table + "\" to keyspace \"" + k.name + "\"",
			Keyspace: k.name, Table: s.table.table})
	}
	if !validName.MatchString(s.table.table) {
		panic(invalid("Table name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got \"%s\")", s.table.table))
	}
	t := &table{keyspace: k.name, name: s.table.table, id: e.opts.NewUUID(), options: setOptions(defaultOptions(), s.properties), data: newData()}
	t.arrange(tableColumns(s, t))
	k.tables[t.name] = t
	return e.changed("CREATED", "TABLE", k.name, t.name)
}

// tableColumns checks the columns and keys of a new table.
func tableColumns(s *createTable, t *table) []*column {
	byName := map[string]*column{}
	var list []*column
	for _, d := range s.columns {
		if byName[d.Name] != nil {
			panic(invalid("Duplicate column '%s' declaration for table '%s'", d.Name, t.full()))
		}
		c := t.newColumn(d)
		byName[d.Name] = c
		list = append(list, c)
	}
	key := func(names []string, kind string) {
		for i, n := range names {
			c := byName[n]
			switch {
			case c == nil:
				panic(invalid("Unknown column '%s' referenced in PRIMARY KEY for table '%s'", n, t.name))
			case c.isKey():
				panic(invalid("Duplicate column '%s' in PRIMARY KEY clause for table '%s'", n, t.name))
			case c.isStatic():
				panic(invalid("Static column '%s' cannot be part of the PRIMARY KEY", n))
			case c.typ.ID == TypeCounter:
				panic(invalid("counter type is not supported for PRIMARY KEY column '%s'", n))
			case c.typ.isMulti():
				panic(invalid("Invalid non-frozen collection type %s for PRIMARY KEY column '%s'", c.typ, n))
			case c.typ.ID == TypeDuration:
				panic(invalid("duration type is not supported for PRIMARY KEY column '%s'", n))
			}
			c.kind, c.pos = kind, i
			if kind == "partition_key" || c.typ.isCollection() {
				c.typ = c.typ.freeze()
			}
			c.desc = s.desc[n]
		}
	}
	key(s.partition, "partition_key")
	key(s.clustering, "clustering")
	for i, n := range s.order {
		if i >= len(s.clustering) || s.clustering[i] != n {
			panic(invalid("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive"))
		}
	}
	if len(s.order) > 0 && len(s.order) < len(s.clustering) {
		panic(invalid("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive: missing %v", s.clustering[len(s.order):]))
	}
	counters, others := 0, 0
	for _, c := range list {
		switch {
		case c.isStatic() && len(s.clustering) == 0:
			panic(invalid("Static columns are only useful (and thus allowed) if the table has at least one clustering column"))
		case c.isKey():
		case c.typ.ID == TypeCounter:
			counters++
		default:
			others++
		}
	}
	if counters > 0 && others > 0 {
		panic(invalid("Cannot mix counter and non counter columns in the same table"))
	}
	return list
}

// own returns a table that can be changed.
func (e *Engine) own(n name, ks string) *table {
	t := e.table(n, ks)
	if t.rows != nil {
		panic(&Error{Code: codeUnauthorized, Message: t.keyspace + " keyspace is not user-modifiable."})
	}
	return t
}

func (e *Engine) exists(n name, ks string) bool {
	if n.keyspace == "" {
		n.keyspace = ks
	}
	k := e.spaces[n.keyspace]
	return k != nil && k.tables[n.table] != nil
}

func (e *Engine) alterTable(s *alterTable, ks string) Result {
	if s.ifExists && !e.exists(s.table, ks) {
		return Result{Kind: Void}
	}
	t := e.own(s.table, ks)
	columns := slices.Clone(t.columns)
	for _, d := range s.add {
		switch c := t.byName[d.Name]; {
		case c != nil && s.ifNotExists:
			continue
		case c != nil || slices.ContainsFunc(columns, func(c *column) bool { return c.name == d.Name }):
			panic(invalid("Column with name '%s' already exists", d.Name))
		case d.Kind == "static" && len(t.ck) == 0:
			panic(invalid("Static columns are only useful (and thus allowed) if the table has at least one clustering column"))
		case len(t.regular)+len(t.statics) > 0 && (d.Type.ID == TypeCounter) != t.hasCounter():
			panic(configuration("Cannot mix counter and non counter columns in the same table"))
		}
		columns = append(columns, t.newColumn(d))
	}
	for _, n := range s.drop {
		c := t.byName[n]
		switch {
		case c == nil && s.colIfExists:
			continue
		case c == nil:
			panic(invalid("Column %s was not found in table '%s'", n, t.full()))
		case c.isKey():
			panic(invalid("Cannot drop PRIMARY KEY column %s", n))
		}
		columns = slices.DeleteFunc(columns, func(x *column) bool { return x == c })
	}
	renamed := map[*column]string{}
	for _, r := range s.rename {
		c := t.byName[r[0]]
		switch {
		case c == nil && s.colIfExists:
			continue
		case c == nil:
			panic(invalid("Column %s was not found in table %s", r[0], t.full()))
		case !c.isKey():
			panic(invalid("Cannot rename non PRIMARY KEY column %s", r[0]))
		case t.byName[r[1]] != nil:
			panic(invalid("Cannot rename column %s to %s in table '%s'; another column with that name already exists", r[0], r[1], t.full()))
		}
		renamed[c] = r[1]
	}
	options := setOptions(t.options, s.properties)
	for c, n := range renamed {
		c.name = n
	}
	t.options = options
	if len(s.add)+len(s.drop)+len(renamed) > 0 {
		t.arrange(columns)
	}
	return e.changed("UPDATED", "TABLE", t.keyspace, t.name)
}

func (e *Engine) drop(s *drop, ks string) Result {
	if !s.isTable {
		k := e.space(s.keyspace)
		if k == nil {
			if s.ifExists {
				return Result{Kind: Void}
			}
			panic(invalid("Keyspace '%s' doesn't exist", s.keyspace))
		}
		delete(e.spaces, s.keyspace)
		return e.changed("DROPPED", "KEYSPACE", s.keyspace, "")
	}
	if !e.exists(s.table, ks) {
		if s.ifExists {
			return Result{Kind: Void}
		}
		panic(invalid("Table '%s' doesn't exist", s.table.table))
	}
	t := e.own(s.table, ks)
	delete(e.spaces[t.keyspace].tables, t.name)
	return e.changed("DROPPED", "TABLE", t.keyspace, t.name)
}
