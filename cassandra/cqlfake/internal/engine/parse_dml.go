package engine

func (p *parser) modification() *modification {
	switch {
	case p.word("insert"):
		return p.insert()
	case p.word("update"):
		return p.update()
	case p.word("delete"):
		return p.delete()
	}
	p.fail("")
	return nil
}

func (p *parser) insert() *modification {
	m := &modification{verb: verbInsert}
	p.expect("into")
	m.table = p.tableName()
	if p.word("json") {
		panic(unsupported("INSERT JSON"))
	}
	m.columns = p.identList()
	p.expect("values")
	p.expectSymbol("(")
	m.values = p.terms(0, ")")
	if p.word("if") {
		p.expect("not", "exists")
		m.ifNotExists = true
	}
	p.using(&m.timestamp, &m.ttl)
	return m
}

// using reads USING TTL n AND TIMESTAMP n. Of two TTLs the last counts.
func (p *parser) using(timestamp, ttl **term) {
	if !p.word("using") {
		return
	}
	for {
		switch {
		case p.word("timestamp"):
			*timestamp = p.intTerm()
		case ttl != nil && p.word("ttl"):
			*ttl = p.intTerm()
		default:
			p.fail("")
		}
		if !p.word("and") {
			return
		}
	}
}

func (p *parser) ifClause(m *modification) {
	if !p.word("if") {
		return
	}
	switch {
	case p.word("exists"):
		m.ifExists = true
	case p.peek().isWord("not") && p.peekAt(1).isWord("exists"):
		p.fail("")
	default:
		m.conditions = p.relations(true)
	}
}

func (p *parser) update() *modification {
	m := &modification{verb: verbUpdate}
	m.table = p.tableName()
	p.using(&m.timestamp, &m.ttl)
	p.expect("set")
	for {
		m.ops = append(m.ops, p.assignment())
		if !p.symbol(",") {
			break
		}
	}
	p.expect("where")
	m.where = p.relations(false)
	p.ifClause(m)
	return m
}

func (p *parser) assignment() operation {
	o := operation{column: p.ident()}
	switch {
	case p.symbol("["):
		o.kind = opElement
		o.element = p.term(0)
		p.expectSymbol("]")
		p.expectSymbol("=")
		o.value = p.term(0)
		return o
	case p.symbol("+="):
		o.kind, o.value = opAdd, p.term(0)
		return o
	case p.symbol("-="):
		o.kind, o.value = opSubtract, p.term(0)
		return o
	case p.peek().isSymbol("."):
		panic(unsupported("fields of user-defined types"))
	}
	p.expectSymbol("=")
	if p.peek().isName() && !p.peek().isWord("true") && !p.peek().isWord("false") && !p.peekAt(1).isSymbol("(") &&
		(p.peekAt(1).isSymbol("+") || p.peekAt(1).isSymbol("-")) {
		if p.ident() != o.column {
			panic(syntax("Only expressions of the form X = X + <value> are supported."))
		}
		if p.symbol("+") {
			o.kind = opAdd
		} else {
			p.expectSymbol("-")
			o.kind = opSubtract
		}
		o.value = p.term(0)
		return o
	}
	if p.peek().isName() && p.tokens[p.i].text == o.column && p.peekAt(1).kind == tokInteger {
		p.fail("")
	}
	o.value = p.term(0)
	if p.symbol("+") {
		if p.ident() != o.column {
			panic(syntax("Only expressions of the form X = <value> + X are supported."))
		}
		o.kind = opPrepend
	}
	return o
}

func (p *parser) delete() *modification {
	m := &modification{verb: verbDelete}
	if !p.word("from") {
		for {
			o := operation{kind: opDeleteColumn, column: p.ident()}
			if p.symbol("[") {
				o.kind = opDeleteElement
				o.element = p.term(0)
				p.expectSymbol("]")
			}
			m.ops = append(m.ops, o)
			if !p.symbol(",") {
				break
			}
		}
		p.expect("from")
	}
	m.table = p.tableName()
	p.using(&m.timestamp, nil)
	p.expect("where")
	m.where = p.relations(false)
	p.ifClause(m)
	return m
}

func (p *parser) batch() *batch {
	p.expect("begin")
	b := &batch{}
	switch {
	case p.word("unlogged"):
		b.kind = "unlogged"
	case p.word("counter"):
		b.kind = "counter"
	}
	p.expect("batch")
	p.using(&b.timestamp, &b.ttl)
	for !p.word("apply") {
		b.statements = append(b.statements, p.modification())
		p.symbol(";")
	}
	p.expect("batch")
	return b
}
