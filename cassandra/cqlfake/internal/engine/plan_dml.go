package engine

import "slices"

const maxTTL = 20 * 365 * 24 * 60 * 60

// change is a compiled operation on a column.
type change struct {
	kind           opKind
	column         *column
	element, value *expr
}

// modPlan is a compiled INSERT, UPDATE or DELETE.
type modPlan struct {
	*modification
	t              *table
	pk             []*restriction // one for each column of the partition key
	ck             []*restriction // in the order of the clustering
	changes        []change
	timestamp, ttl *expr
	conds          []*condition
}

func (b *binder) compileModification(m *modification) *modPlan {
	t := b.table
	if t.rows != nil {
		panic(invalid("Cannot modify %s: the table is virtual and read-only", t.full()))
	}
	if t.hasCounter() {
		panic(unsupported("writing to counters (table " + t.full() + ")"))
	}
	p := &modPlan{modification: m, t: t}
	if m.conditional() && m.timestamp != nil {
		panic(invalid("Cannot provide custom timestamp for conditional updates"))
	}
	switch m.verb {
	case verbInsert:
		b.compileInsert(p)
		p.timestamp = b.compileInt(m.timestamp, TypeBigint, "[timestamp]")
		p.ttl = b.compileInt(m.ttl, TypeInt, "[ttl]")
	case verbUpdate:
		// In the order of the text, for the numbers of the bind variables are given already.
		p.timestamp = b.compileInt(m.timestamp, TypeBigint, "[timestamp]")
		p.ttl = b.compileInt(m.ttl, TypeInt, "[ttl]")
		b.compileOps(p)
		b.compileTarget(p)
	case verbDelete:
		p.timestamp = b.compileInt(m.timestamp, TypeBigint, "[timestamp]")
		b.compileOps(p)
		b.compileTarget(p)
	}
	b.checkTarget(p)
	return p
}

func (b *binder) compileInsert(p *modPlan) {
	m := p.modification
	if len(m.columns) != len(m.values) {
		panic(invalid("Unmatched column names/values"))
	}
	keys := map[*column]*restriction{}
	seen := map[*column]bool{}
	for i, n := range m.columns {
		c := p.t.column(n)
		if seen[c] {
			panic(invalid("The column names contains duplicates"))
		}
		seen[c] = true
		if c.isKey() {
			keys[c] = &restriction{columns: []*column{c}, op: "=", values: []*expr{b.compile(m.values[i], c.typ, c.name)}}
			continue
		}
		p.changes = append(p.changes, change{kind: opSet, column: c, value: b.compile(m.values[i], c.typ, c.name)})
	}
	var missing []string
	for _, c := range p.t.pk {
		if keys[c] == nil {
			missing = append(missing, c.name)
		}
		p.pk = append(p.pk, keys[c])
	}
	if missing != nil {
		panic(invalid("Some partition key parts are missing: %s", join(missing)))
	}
	for _, c := range p.t.ck {
		if r := keys[c]; r != nil {
			p.ck = append(p.ck, r)
		} else {
			missing = append(missing, c.name)
		}
	}
	if missing != nil && (len(p.ck) > 0 || !p.onlyStatic()) {
		panic(invalid("Some clustering keys are missing: %s", join(missing)))
	}
}

func join(list []string) string {
	s := ""
	for i, x := range list {
		if i > 0 {
			s += ", "
		}
		s += x
	}
	return s
}

// onlyStatic: nothing but static columns are changed and asked for.
func (p *modPlan) onlyStatic() bool {
	if len(p.changes) == 0 && len(p.conds) == 0 {
		return false
	}
	for _, c := range p.changes {
		if !c.column.isStatic() {
			return false
		}
	}
	for _, c := range p.conds {
		if !c.column.isStatic() {
			return false
		}
	}
	return p.verb != verbDelete || len(p.changes) > 0
}

func (b *binder) compileOps(p *modPlan) {
	sets := map[*column]bool{}
	for _, o := range p.ops {
		c := p.t.column(o.column)
		if c.isKey() {
			if p.verb == verbDelete {
				panic(invalid("Invalid identifier %s for deletion (should not be a PRIMARY KEY part)", c.name))
			}
			panic(invalid("PRIMARY KEY part %s found in SET part", c.name))
		}
		if o.kind == opSet || o.kind == opDeleteColumn {
			if sets[c] {
				panic(syntax("Multiple incompatible setting of column %s", c.name))
			}
			sets[c] = true
		}
		p.changes = append(p.changes, b.compileChange(c, o))
	}
}

func (b *binder) compileChange(c *column, o operation) change {
	ch := change{kind: o.kind, column: c}
	needs := func(ok bool, what string) {
		if !ok {
			panic(invalid("Invalid operation (%s) for column %s of type %s", what, c.name, c.typ))
		}
	}
	switch o.kind {
	case opSet:
		ch.value = b.compile(o.value, c.typ, c.name)
	case opAdd:
		needs(c.typ.isMulti(), c.name+" = "+c.name+" + …")
		ch.value = b.compile(o.value, c.typ, c.name)
	case opPrepend:
		needs(c.typ.isMulti() && c.typ.ID == TypeList, "… + "+c.name)
		ch.value = b.compile(o.value, c.typ, c.name)
	case opSubtract:
		needs(c.typ.isMulti(), c.name+" = "+c.name+" - …")
		t := c.typ
		if t.ID == TypeMap {
			t = Type{ID: TypeSet, Elems: t.Elems[:1]}
		}
		ch.value = b.compile(o.value, t, c.name)
	case opElement:
		needs(c.typ.isMulti() && c.typ.ID != TypeSet, c.name+"[…] = …")
		if c.typ.ID == TypeList {
			ch.element = b.compile(o.element, Type{ID: TypeInt}, "idx("+c.name+")")
			ch.value = b.compile(o.value, c.typ.Elems[0], "value("+c.name+")")
			break
		}
		ch.element = b.compile(o.element, c.typ.Elems[0], "key("+c.name+")")
		ch.value = b.compile(o.value, c.typ.Elems[1], "value("+c.name+")")
	case opDeleteElement:
		needs(c.typ.isMulti(), "DELETE "+c.name+"[…]")
		if c.typ.ID == TypeList {
			ch.element = b.compile(o.element, Type{ID: TypeInt}, "idx("+c.name+")")
			break
		}
		ch.element = b.compile(o.element, c.typ.Elems[0], "key("+c.name+")")
	}
	return ch
}

// compileTarget sorts the WHERE and the IF of an UPDATE or DELETE.
func (b *binder) compileTarget(p *modPlan) {
	keys := map[*column]*restriction{}
	for _, r := range b.compileWhere(p.where) {
		if r.token {
			panic(invalid("The token function cannot be used in WHERE clauses for %s statements", p.verb))
		}
		for _, c := range r.columns {
			switch {
			case !c.isKey():
				panic(invalid("Non PRIMARY KEY columns found in where clause: %s", c.name))
			case c.kind == "partition_key" && r.op != "=" && r.op != "in":
				panic(invalid("Only EQ and IN relation are supported on the partition key (unless you use the token() function) for %s statements", p.verb))
			case c.kind == "clustering" && (r.op == "contains" || r.op == "contains key"):
				panic(unsupported(r.op + " on a clustering column of a modification"))
			}
			old := keys[c]
			if c.kind == "partition_key" {
				if old != nil {
					panic(invalid("%s cannot be restricted by more than one relation if it includes an Equal", c.name))
				}
				keys[c] = r
				continue
			}
			if old != nil && (!old.isSlice() || !r.isSlice() || old.op[0] == r.op[0]) {
				panic(invalid("%s cannot be restricted by more than one relation if it includes an Equal", c.name))
			}
			keys[c] = r
		}
		if r.columns[0].kind == "clustering" {
			p.ck = append(p.ck, r)
		}
	}
	var missing []string
	for _, c := range p.t.pk {
		if keys[c] == nil {
			missing = append(missing, c.name)
		}
		p.pk = append(p.pk, keys[c])
	}
	if missing != nil {
		panic(invalid("Some partition key parts are missing: %s", join(missing)))
	}
	slices.SortStableFunc(p.ck, func(a, b *restriction) int { return a.columns[0].pos - b.columns[0].pos })
	for _, r := range p.conditions {
		p.conds = append(p.conds, b.compileCondition(r))
	}
}

func (r *restriction) isSlice() bool { return r.op[0] == '<' || r.op[0] == '>' }

// fullKey: = or IN on every clustering column.
func (p *modPlan) fullKey() bool {
	n := 0
	for _, r := range p.ck {
		if r.isSlice() {
			return false
		}
		n += len(r.columns)
	}
	return n == len(p.t.ck)
}

func (p *modPlan) firstUnrestricted() string {
	used := map[*column]bool{}
	for _, r := range p.ck {
		for _, c := range r.columns {
			used[c] = !r.isSlice()
		}
	}
	for _, c := range p.t.ck {
		if !used[c] {
			return c.name
		}
	}
	return ""
}

func (b *binder) checkTarget(p *modPlan) {
	t := p.t
	hasRegular := slices.ContainsFunc(p.changes, func(c change) bool { return !c.column.isStatic() })
	regularConds := slices.ContainsFunc(p.conds, func(c *condition) bool { return !c.column.isStatic() })
	switch {
	case p.verb == verbInsert:
	case len(p.ck) > 0 && p.onlyStatic():
		panic(invalid("Invalid restrictions on clustering columns since the %s statement modifies only static columns", p.verb))
	case p.verb == verbUpdate && !p.fullKey() && (hasRegular || regularConds || len(p.ck) > 0):
		for _, r := range p.ck {
			if r.isSlice() {
				panic(invalid("Slice restrictions are not supported on the clustering columns in UPDATE statements"))
			}
		}
		panic(invalid("Some clustering keys are missing: %s", p.firstUnrestricted()))
	case p.verb == verbDelete && hasRegular && !p.fullKey():
		if p.conditional() {
			panic(invalid("DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to delete non static columns"))
		}
		if slices.ContainsFunc(p.ck, (*restriction).isSlice) {
			panic(invalid("Range deletions are not supported for specific columns"))
		}
		panic(invalid("Some clustering keys are missing: %s", p.firstUnrestricted()))
	case p.verb == verbDelete && p.conditional() && !p.fullKey() && len(t.ck) > 0 && (len(p.changes) == 0 || regularConds):
		panic(invalid("DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to use IF condition on non static columns"))
	}
	next := 0 // clustering columns must be restricted from the first on
	for i, r := range p.ck {
		if r.columns[0].pos > next {
			panic(invalid("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted", r.columns[0].name, t.ck[next].name))
		}
		if r.isSlice() && i+1 < len(p.ck) && p.ck[i+1].columns[0] != r.columns[0] {
			panic(invalid("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)", p.ck[i+1].columns[0].name, r.columns[0].name))
		}
		next = r.columns[len(r.columns)-1].pos + 1
	}
	if p.conditional() {
		for _, r := range p.pk {
			if r.op == "in" {
				panic(invalid("IN on the partition key is not supported with conditional %s", plural(p.verb)))
			}
		}
		for _, r := range p.ck {
			if r.op == "in" {
				panic(invalid("IN on the clustering key columns is not supported with conditional %s", plural(p.verb)))
			}
		}
	}
}

func plural(v verb) string {
	if v == verbDelete {
		return "deletions"
	}
	return "updates"
}

// updates says what kinds of columns are read for IF EXISTS and IF NOT EXISTS.
func (p *modPlan) updates() (static, regular bool) {
	static = slices.ContainsFunc(p.changes, func(c change) bool { return c.column.isStatic() })
	return static, len(p.t.ck) == 0 || len(p.ck) > 0
}
