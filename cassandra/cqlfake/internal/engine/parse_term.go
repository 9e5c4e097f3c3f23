package engine

import "strings"

// marker reads ? or :name after the caller has seen it.
func (p *parser) marker() (*term, bool) {
	name := ""
	switch {
	case p.symbol("?"):
	case p.peek().isSymbol(":") && p.peekAt(1).isName():
		p.next()
		name = p.ident()
	default:
		return nil, false
	}
	p.markers = append(p.markers, name)
	if len(p.markers) > 65535 {
		panic(syntax("more than 65535 bind variables"))
	}
	return &term{kind: termMarker, marker: len(p.markers) - 1}, true
}

// term reads a value.
func (p *parser) term(depth int) *term {
	if depth > maxTypeDepth {
		panic(syntax("values are nested more than %d deep", maxTypeDepth))
	}
	if m, ok := p.marker(); ok {
		return m
	}
	t := p.peek()
	literal := func(k termKind) *term {
		p.next()
		return &term{kind: k, text: t.text}
	}
	switch t.kind {
	case tokString:
		return literal(termString)
	case tokInteger:
		return literal(termInteger)
	case tokFloat:
		return literal(termFloat)
	case tokUUID:
		return literal(termUUID)
	case tokHex:
		return literal(termHex)
	case tokDuration:
		return literal(termDuration)
	case tokSymbol:
		return p.symbolTerm(depth)
	case tokWord:
		switch t.text {
		case "null":
			return literal(termNull)
		case "true", "false":
			if !p.peekAt(1).isSymbol("(") {
				return literal(termBoolean)
			}
		case "nan", "infinity":
			return literal(termFloat)
		}
		if _, ok := parseISODuration(t.text); ok && !p.peekAt(1).isSymbol("(") {
			return literal(termDuration)
		}
	}
	if (t.isName() || t.isWord("token")) && p.peekAt(1).isSymbol("(") {
		p.next()
		p.next()
		call := &term{kind: termCall, text: t.text}
		if !p.symbol(")") {
			call.elems = p.terms(depth, ")")
		}
		return call
	}
	p.fail("")
	return nil
}

// terms reads values up to and including the closing symbol.
func (p *parser) terms(depth int, end string) []*term {
	list := []*term{p.term(depth + 1)}
	for p.symbol(",") {
		list = append(list, p.term(depth+1))
	}
	p.expectSymbol(end)
	return list
}

func (p *parser) symbolTerm(depth int) *term {
	switch {
	case p.symbol("-"):
		switch t := p.next(); {
		case t.kind == tokInteger:
			return &term{kind: termInteger, text: "-" + t.text}
		case t.kind == tokFloat || t.isWord("infinity") || t.isWord("nan"):
			return &term{kind: termFloat, text: "-" + t.text}
		case t.kind == tokDuration:
			return &term{kind: termDuration, text: "-" + t.text}
		case t.kind == tokWord:
			if _, ok := parseISODuration(t.text); ok {
				return &term{kind: termDuration, text: "-" + t.text}
			}
		}
		p.i--
		p.fail("")
	case p.symbol("["):
		if p.symbol("]") {
			return &term{kind: termList}
		}
		return &term{kind: termList, elems: p.terms(depth, "]")}
	case p.symbol("{"):
		return p.braces(depth)
	case p.symbol("("):
		if p.peek().kind == tokWord && p.peekAt(1).isSymbol(")") || p.peek().isWord("list") || p.peek().isWord("set") || p.peek().isWord("map") ||
			p.peek().isWord("frozen") || p.peek().isWord("tuple") {
			if w := p.peek().text; w != "null" && w != "true" && w != "false" {
				cast := p.parseType(depth + 1)
				p.expectSymbol(")")
				return &term{kind: termCast, cast: cast, elems: []*term{p.term(depth + 1)}}
			}
		}
		return &term{kind: termTuple, elems: p.terms(depth, ")")}
	}
	p.fail("")
	return nil
}

func (p *parser) braces(depth int) *term {
	if p.symbol("}") {
		return &term{kind: termSet}
	}
	first := p.term(depth + 1)
	if !p.symbol(":") {
		t := &term{kind: termSet, elems: []*term{first}}
		for p.symbol(",") {
			t.elems = append(t.elems, p.term(depth+1))
		}
		p.expectSymbol("}")
		return t
	}
	t := &term{kind: termMap, keys: []*term{first}, elems: []*term{p.term(depth + 1)}}
	for p.symbol(",") {
		t.keys = append(t.keys, p.term(depth+1))
		p.expectSymbol(":")
		t.elems = append(t.elems, p.term(depth+1))
	}
	p.expectSymbol("}")
	return t
}

// relations reads conditions joined by AND.
func (p *parser) relations(inIf bool) []relation {
	var list []relation
	for {
		list = p.relation(list, inIf, 0)
		if !p.word("and") {
			return list
		}
	}
}

func (p *parser) relation(list []relation, inIf bool, depth int) []relation {
	if depth > maxTypeDepth {
		panic(syntax("conditions are nested more than %d deep", maxTypeDepth))
	}
	var r relation
	switch {
	case p.word("token"):
		r.token = true
		r.columns = p.identList()
	case p.peek().isSymbol("(") && p.peekAt(1).isName() && (p.peekAt(2).isSymbol(",") || p.peekAt(2).isSymbol(")")):
		r.columns = p.identList()
		r.isTuple = true
	case p.symbol("("):
		list = p.relation(list, inIf, depth+1)
		p.expectSymbol(")")
		return list
	default:
		r.columns = []string{p.ident()}
		switch {
		case p.symbol("["):
			r.element = p.term(0)
			p.expectSymbol("]")
		case p.peek().isSymbol("."):
			panic(unsupported("fields of user-defined types"))
		}
	}
	p.operator(&r)
	return append(list, r)
}

func (p *parser) operator(r *relation) {
	t := p.next()
	switch {
	case t.kind == tokSymbol && strings.Contains(" = != < <= > >= ", " "+t.text+" "):
		r.op = t.text
		r.value = p.term(0)
	case t.isWord("in"):
		r.op = "in"
		if m, ok := p.marker(); ok {
			r.value = m
			return
		}
		r.isList = true
		p.expectSymbol("(")
		if !p.symbol(")") {
			r.list = p.terms(0, ")")
		}
	case t.isWord("contains"):
		r.op = "contains"
		if p.word("key") {
			r.op = "contains key"
		}
		r.value = p.term(0)
	case t.isWord("like"):
		r.op = "like"
		r.value = p.term(0)
	case t.isWord("is"):
		p.expect("not", "null")
		r.op = "is not null"
	default:
		p.i--
		p.fail("")
	}
}
