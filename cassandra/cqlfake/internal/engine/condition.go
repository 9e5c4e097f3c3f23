package engine

// condition is a compiled condition of an IF.
type condition struct {
	column *column
	op     string
	values []*expr
	marker *expr // IN ?
}

func (b *binder) compileCondition(r relation) *condition {
	if r.token || r.isTuple {
		panic(syntax("line 1:0 no viable alternative at input: IF takes conditions on single columns"))
	}
	c := b.table.column(r.columns[0])
	if c.isKey() {
		panic(invalid("PRIMARY KEY column '%s' cannot have IF conditions", c.name))
	}
	switch {
	case c.typ.isMulti() || r.element != nil:
		panic(unsupported("IF conditions on collections that are not frozen (column " + c.name + ")"))
	case r.op == "contains" || r.op == "contains key":
		panic(unsupported("CONTAINS in IF"))
	case r.op == "like" || r.op == "is not null":
		panic(syntax("line 1:0 no viable alternative at input: IF does not take %s", r.op))
	case c.typ.ID == TypeDuration && r.op != "=" && r.op != "!=" && r.op != "in":
		panic(invalid("Slice conditions ( %s ) are not supported on durations", r.op))
	}
	out := &condition{column: c, op: r.op}
	switch {
	case r.op == "in" && !r.isList:
		out.marker = b.compile(r.value, Type{ID: TypeList, Elems: []Type{c.typ}}, "in("+c.name+")")
	case r.op == "in":
		for _, x := range r.list {
			out.values = append(out.values, b.compile(x, c.typ, c.name))
		}
	default:
		out.values = []*expr{b.compile(r.value, c.typ, c.name)}
	}
	return out
}

// check is a condition with its values.
type check struct {
	column *column
	op     string
	values [][]byte
}

func (c *condition) eval(s *scope) check {
	out := check{column: c.column, op: c.op}
	if c.marker != nil {
		b, unset := c.marker.eval(s)
		switch {
		case unset:
			panic(invalid("Invalid 'unset' value in condition"))
		case b == nil:
			panic(invalid("Invalid null list in IN condition"))
		}
		parts, ok := splitParts(c.marker.typ, b)
		if !ok {
			panic(invalid("Invalid list in IN condition on %s", c.column.name))
		}
		out.values = parts
		return out
	}
	for _, x := range c.values {
		b, unset := x.eval(s)
		if unset {
			if c.op == "in" {
				continue // as if it were not listed
			}
			panic(invalid("Invalid 'unset' value in condition"))
		}
		out.values = append(out.values, b)
	}
	return out
}

// holds compares with the row's value, which is nil for a row that is absent.
func (c check) holds(value []byte) bool {
	if c.op == "in" {
		for _, v := range c.values {
			if c.compare("=", value, v) {
				return true
			}
		}
		return false
	}
	return c.compare(c.op, value, c.values[0])
}

func (c check) compare(op string, value, with []byte) bool {
	switch {
	case with == nil && op != "=" && op != "!=":
		panic(invalid("Invalid comparison with null for operator \"%s\"", op))
	case with == nil:
		return (value == nil) == (op == "=")
	case value == nil:
		return op == "!="
	}
	return satisfies(op, c.column.typ.compare(value, with))
}

// rank is the place of the column's conditions among those of a row: the server
// keeps them in a Java hash map of 16 buckets and stops at the first that does not
// hold, which decides whether a fault in one shows.
func (c *column) rank() int {
	h := int32(1)
	for i := len(c.name) - 1; i >= 0; i-- {
		h = 31*h + int32(int8(c.name[i]))
	}
	h = 31 * (31 + h)
	return int((uint32(h) ^ uint32(h)>>16) & 15)
}

func satisfies(op string, c int) bool {
	switch op {
	case "=":
		return c == 0
	case "!=":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	}
	return false
}
