package engine

// virtual returns the plan of a SELECT from a table of Define, or nil.
func (r *Request) virtual() *selectPlan {
	if len(r.Statements) != 1 || r.Batch || r.Statements[0].Statement == nil {
		return nil
	}
	if p, ok := r.Statements[0].Statement.impl.(*plan); ok && p.sel != nil && p.t.rows != nil {
		return p.sel
	}
	return nil
}

// executeVirtual reads a table of Define: without the lock, so that its function
// can ask for the schema.
func (e *Engine) executeVirtual(r Request, sel *selectPlan) (res Result, err error) {
	defer rescue(&err)
	p := r.Statements[0].Statement.impl.(*plan)
	e.mu.Lock()
	fresh := e.fresh(p)
	e.mu.Unlock()
	if !fresh {
		return res, &Error{Code: CodeUnprepared, Message: "the schema has changed: prepare the statement again"}
	}
	// A copy of its own, filled with what the table has now.
	t := *sel.t
	t.data = newData()
	for _, values := range t.rows() {
		t.data.fill(&t, values)
	}
	own := *sel
	own.t = &t
	s := &scope{e: e, now: r.Now, vals: resolve(p.variables, r.Statements[0].Values)}
	return own.run(s, &r), nil
}

// fill adds one row of a virtual table.
func (d *data) fill(t *table, values map[string]any) {
	encoded := func(c *column) []byte {
		b, err := Encode(c.typ, values[c.name])
		if err != nil {
			panic(&Error{Code: codeServer, Message: "cqlfake: column " + c.name + " of " + t.full() + ": " + err.Error()})
		}
		return b
	}
	key := func(columns []*column) [][]byte {
		var out [][]byte
		for _, c := range columns {
			b := encoded(c)
			if b == nil {
				panic(&Error{Code: codeServer, Message: "cqlfake: key column " + c.name + " of " + t.full() + " is null"})
			}
			out = append(out, b)
		}
		return out
	}
	r := d.partition(key(t.pk), true).upsert(t, key(t.ck))
	r.marker = &cell{}
	for _, c := range t.regular {
		b := encoded(c)
		if b == nil {
			continue
		}
		s := r.grow(c.id)
		if !c.typ.isMulti() {
			s.cell = &cell{value: b}
			continue
		}
		parts, _ := splitParts(c.typ, b)
		for i, v := range parts {
			switch {
			case c.typ.ID == TypeSet:
				s.putElem(string(v), &cell{})
			case c.typ.ID == TypeMap && i%2 == 0:
				s.putElem(string(v), &cell{value: parts[i+1]})
			case c.typ.ID == TypeList:
				s.putElem(listPath(int64(i)), &cell{value: v})
			}
		}
	}
}
