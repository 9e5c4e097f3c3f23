package engine

import (
	"encoding/binary"
	"strings"
)

// output is one column of a result.
type output struct {
	result Column
	column *column // or
	call   string
	args   []*output
	// of an aggregate: count, min, max
	aggregate bool
}

// record is a row as a SELECT sees it.
type record struct {
	p      *partition
	static *row // nil: none
	row    *row // nil: only the static part
}

func (b *binder) compileOutput(p *selectPlan) {
	t := p.t
	if p.all {
		for _, c := range t.columns {
			p.out = append(p.out, &output{result: c.result(t), column: c})
		}
	}
	for _, s := range p.selectors {
		o := b.compileSelector(s, false)
		o.result.Name = s.text
		if s.alias != "" {
			o.result.Name = s.alias
		}
		p.aggregate = p.aggregate || o.aggregate
		p.out = append(p.out, o)
	}
	for _, o := range p.out {
		if p.aggregate && o.hasAggregate() != o.aggregate {
			panic(unsupported("functions of aggregates"))
		}
		if !p.distinct {
			continue
		}
		if o.column == nil || o.column.kind != "partition_key" && !o.column.isStatic() {
			panic(invalid("SELECT DISTINCT queries must only request partition key columns and/or static columns (not %s)", o.result.Name))
		}
	}
	if p.distinct {
		for _, c := range t.pk {
			found := false
			for _, o := range p.out {
				found = found || o.column == c
			}
			if !found {
				panic(invalid("SELECT DISTINCT queries must request all the partition key columns (missing %s)", c.name))
			}
		}
	}
}

func (o *output) hasAggregate() bool {
	for _, a := range o.args {
		if a.aggregate || a.hasAggregate() {
			return true
		}
	}
	return o.aggregate
}

func (b *binder) compileSelector(s *selector, nested bool) *output {
	t := b.table
	o := &output{result: Column{Keyspace: t.keyspace, Table: t.name}}
	switch {
	case s.star:
		if nested {
			panic(unsupported("functions of aggregates"))
		}
		o.call, o.aggregate = "count", true
		o.result.Type = Type{ID: TypeBigint}
		return o
	case s.column != "":
		o.column = t.column(s.column)
		o.result = o.column.result(t)
		return o
	case s.term != nil:
		panic(invalid("Cannot infer type for a term in the selection clause (try using a cast to force a type)"))
	}
	o.call = s.call
	for _, a := range s.args {
		o.args = append(o.args, b.compileSelector(a, true))
	}
	arg := func(i int) Type { return o.args[i].result.Type }
	column := func() *column {
		if len(o.args) != 1 || o.args[0].column == nil {
			panic(invalid("%s takes one column", s.call))
		}
		return o.args[0].column
	}
	prefix := "system."
	switch {
	case s.call == "ttl" || s.call == "writetime":
		c := column()
		if c.isKey() {
			panic(invalid("Cannot use selection function %s on PRIMARY KEY part %s", s.call, c.name))
		}
		o.result.Type = Type{ID: TypeInt}
		if s.call == "writetime" {
			o.result.Type = Type{ID: TypeBigint}
		}
		if c.typ.isMulti() {
			panic(unsupported(strings.ToUpper(s.call) + " of a collection that is not frozen"))
		}
		prefix = ""
	case s.call == "token":
		if len(o.args) != len(t.pk) {
			panic(invalid("Invalid number of arguments in call to function system.token: %d required but %d provided", len(t.pk), len(o.args)))
		}
		for i, a := range o.args {
			if !arg(i).equal(t.pk[i].typ) || a.aggregate {
				panic(invalid("Type error: an argument of token() is not of the type of the partition key's %s", t.pk[i].name))
			}
		}
		o.result.Type = Type{ID: TypeBigint}
	case s.call == "count" || s.call == "min" || s.call == "max":
		if len(o.args) != 1 || nested || o.args[0].hasAggregate() {
			panic(invalid("Aggregate functions cannot be used as arguments of aggregate functions, and %s takes one argument", s.call))
		}
		o.aggregate = true
		o.result.Type = arg(0)
		if s.call == "count" {
			o.result.Type = Type{ID: TypeBigint}
		}
	case nullary[s.call] != 0 && len(o.args) == 0:
		o.result.Type = Type{ID: nullary[s.call]}
	case unary[s.call] != 0 && len(o.args) == 1:
		id := arg(0).ID
		timeArg := strings.HasPrefix(s.call, "m")
		if timeArg && id != TypeTimestamp || !timeArg && id != TypeTimeUUID && id != TypeTimestamp && id != TypeDate {
			panic(invalid("Invalid call to function %s: none of its type signatures that cqlfake knows match (%s)", s.call, arg(0)))
		}
		o.result.Type = Type{ID: unary[s.call]}
	default:
		panic(invalid("Unknown function '%.60s', or one that cqlfake does not support with these arguments", s.call))
	}
	s.text = prefix + s.text
	if len(s.args) > 0 {
		var texts []string
		for _, a := range s.args {
			texts = append(texts, a.text)
		}
		s.text = prefix + s.call + "(" + strings.Join(texts, ", ") + ")"
	}
	return o
}

// eval computes the column for a record.
func (o *output) eval(s *scope, t *table, rec *record) []byte {
	if c := o.column; c != nil {
		return rec.value(c, s.seconds())
	}
	switch o.call {
	case "ttl", "writetime":
		return o.cellInfo(s, rec)
	case "token":
		var values [][]byte
		for _, a := range o.args {
			values = append(values, a.eval(s, t, rec))
		}
		return asBigint(token(partitionKey(values)))
	}
	var arg []byte
	var typ Type
	if len(o.args) == 1 {
		arg, typ = o.args[0].eval(s, t, rec), o.args[0].result.Type
		if arg == nil {
			return nil
		}
	}
	return callFunction(s, o.call, typ, arg)
}

func (o *output) cellInfo(s *scope, rec *record) []byte {
	c := o.args[0].column
	r := rec.row
	if c.isStatic() {
		r = rec.static
	}
	sl := r.slot(c.id)
	if sl == nil || !sl.cell.live(s.seconds()) {
		return nil
	}
	if o.call == "writetime" {
		return asBigint(sl.cell.ts)
	}
	if sl.cell.expiry == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(nil, uint32(sl.cell.expiry-s.seconds()))
}

func (rec *record) value(c *column, now int64) []byte {
	switch {
	case c.kind == "partition_key":
		return rec.p.values[c.pos]
	case c.kind == "clustering":
		if rec.row == nil {
			return nil
		}
		return rec.row.key[c.pos]
	case c.isStatic():
		if rec.static == nil {
			return nil
		}
		return rec.static.value(c, now)
	case rec.row == nil:
		return nil
	}
	return rec.row.value(c, now)
}
