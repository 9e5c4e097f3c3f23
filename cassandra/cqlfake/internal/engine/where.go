package engine

import (
	"slices"
)

// restriction is a compiled relation of a WHERE.
type restriction struct {
	columns []*column
	op      string
	token   bool
	values  []*expr // one; of IN many; of a tuple one for each column
	tuples  [][]*expr
	marker  *expr // IN ?: a list
	// of a tuple IN ?: a list of tuples, in marker too
}

func (b *binder) compileWhere(list []relation) []*restriction {
	var out []*restriction
	for _, r := range list {
		out = append(out, b.compileRelation(r))
	}
	return out
}

func (b *binder) compileRelation(r relation) *restriction {
	out := &restriction{op: r.op, token: r.token}
	for _, n := range r.columns {
		out.columns = append(out.columns, b.table.column(n))
	}
	switch {
	case r.op == "like":
		panic(invalid("LIKE restriction is only supported on properly indexed columns. %s LIKE … is not valid.", r.columns[0]))
	case r.op == "is not null":
		panic(unsupported("IS NOT NULL"))
	case r.op == "!=":
		panic(invalid("Unsupported \"!=\" relation: %s != …", r.columns[0]))
	case r.element != nil:
		panic(unsupported("a condition on an element of a collection in WHERE"))
	case r.token:
		if !slices.Equal(out.columns, b.table.pk) {
			panic(invalid("The token function arguments must be in the partition key order: %s", names(b.table.pk)))
		}
		if r.op == "in" || r.op == "contains" || r.op == "contains key" {
			panic(invalid("%s cannot be used with the token function", r.op))
		}
		out.values = []*expr{b.compile(r.value, Type{ID: TypeBigint}, "partition key token")}
		return out
	case r.isTuple:
		b.compileTuple(out, r)
		return out
	}
	c := out.columns[0]
	switch r.op {
	case "in":
		if c.typ.isMulti() {
			panic(invalid("Collection column '%s' (%s) cannot be restricted by a 'IN' relation", c.name, c.typ))
		}
		if !r.isList {
			out.marker = b.compile(r.value, Type{ID: TypeList, Elems: []Type{c.typ}}, "in("+c.name+")")
			return out
		}
		for _, x := range r.list {
			out.values = append(out.values, b.compile(x, c.typ, c.name))
		}
		return out
	case "contains", "contains key":
		elem := containsType(c, r.op)
		out.values = []*expr{b.compile(r.value, elem, map[string]string{"contains": "value(", "contains key": "key("}[r.op]+c.name+")")}
		return out
	}
	if c.typ.isMulti() {
		panic(invalid("Collection column '%s' (%s) cannot be restricted by a '%s' relation", c.name, c.typ, r.op))
	}
	if c.typ.ID == TypeDuration && r.op != "=" {
		panic(invalid("Slice restrictions are not supported on duration columns"))
	}
	out.values = []*expr{b.compile(r.value, c.typ, c.name)}
	return out
}

func containsType(c *column, op string) Type {
	switch {
	case op == "contains" && (c.typ.ID == TypeList || c.typ.ID == TypeSet):
		return c.typ.Elems[0]
	case op == "contains" && c.typ.ID == TypeMap:
		return c.typ.Elems[1]
	case op == "contains key" && c.typ.ID == TypeMap:
		return c.typ.Elems[0]
	}
	panic(invalid("Cannot use %s on non-collection column %s", op, c.name))
}

func (b *binder) compileTuple(out *restriction, r relation) {
	for i, c := range out.columns {
		if c.kind != "clustering" {
			panic(invalid("Multi-column relations can only be applied to clustering columns but was applied to: %s", c.name))
		}
		if i > 0 && c.pos != out.columns[i-1].pos+1 {
			panic(invalid("Clustering columns must appear in the PRIMARY KEY order in multi-column relations"))
		}
	}
	tuple := func(x *term) []*expr {
		if x.kind != termTuple {
			panic(unsupported("a multi-column relation with anything but tuples of values"))
		}
		if len(x.elems) != len(out.columns) {
			panic(invalid("Expected %d elements in value tuple, but got %d", len(out.columns), len(x.elems)))
		}
		var list []*expr
		for i, c := range out.columns {
			list = append(list, b.compile(x.elems[i], c.typ, c.name))
		}
		return list
	}
	switch {
	case r.op == "in" && !r.isList:
		panic(unsupported("a multi-column IN with one bind variable"))
	case r.op == "in":
		for _, x := range r.list {
			out.tuples = append(out.tuples, tuple(x))
		}
	case r.op == "contains" || r.op == "contains key":
		panic(invalid("%s cannot be used for multi-column relations", r.op))
	default:
		out.values = tuple(r.value)
	}
}

func names(list []*column) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.name)
	}
	return out
}

// eval returns the values that a column may have: of =, one, of IN, all, sorted
// and without repetition.
func (r *restriction) eval(s *scope) [][]byte {
	c := r.columns[0]
	one := func(b []byte, unset bool) []byte {
		switch {
		case unset:
			panic(invalid("Invalid unset value for column %s", c.name))
		case b == nil:
			panic(invalid("Invalid null value in condition for column %s", c.name))
		}
		return b
	}
	if r.op != "in" {
		return [][]byte{one(r.values[0].eval(s))}
	}
	var out [][]byte
	if r.marker != nil {
		b, unset := r.marker.eval(s)
		parts, ok := splitParts(r.marker.typ, one(b, unset))
		if !ok {
			panic(invalid("Invalid list for IN of column %s", c.name))
		}
		out = slices.Clone(parts)
	}
	for _, x := range r.values {
		out = append(out, one(x.eval(s)))
	}
	slices.SortFunc(out, c.typ.compare)
	return slices.CompactFunc(out, func(a, b []byte) bool { return c.typ.compare(a, b) == 0 })
}

func checkKeySize(values [][]byte, t *table) {
	if len(t.pk) == 1 && len(values[0]) == 0 {
		panic(invalid("Key may not be empty"))
	}
	size := 0
	for _, v := range values {
		size += len(v)
	}
	if size > 65535 {
		panic(invalid("Key length of %d is longer than maximum of 65535", size))
	}
}

// product returns all combinations of the columns' values.
func product(lists [][][]byte) [][][]byte {
	out := [][][]byte{nil}
	for _, list := range lists {
		if len(out)*len(list) > 100_000 {
			panic(invalid("too many combinations of IN"))
		}
		var next [][][]byte
		for _, prefix := range out {
			for _, v := range list {
				next = append(next, append(slices.Clone(prefix), v))
			}
		}
		out = next
	}
	return out
}
