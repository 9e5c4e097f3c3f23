package engine

import "strings"

func (p *parser) selectStatement() *selection {
	p.expect("select")
	s := &selection{}
	if p.word("json") {
		panic(unsupported("SELECT JSON"))
	}
	if p.peek().isWord("distinct") && !p.peekAt(1).isWord("from") && !p.peekAt(1).isSymbol(",") && !p.peekAt(1).isWord("as") {
		p.next()
		s.distinct = true
	}
	if p.symbol("*") {
		s.all = true
	} else {
		s.selectors = append(s.selectors, p.aliased())
		for p.symbol(",") {
			s.selectors = append(s.selectors, p.aliased())
		}
	}
	p.expect("from")
	s.table = p.tableName()
	if p.word("where") {
		s.where = p.relations(false)
	}
	if p.word("group") {
		panic(unsupported("GROUP BY"))
	}
	if p.word("order", "by") {
		for {
			o := ordering{column: p.ident()}
			if p.word("ann") {
				panic(unsupported("ANN"))
			}
			if p.word("desc") {
				o.desc = true
			} else {
				p.word("asc")
			}
			s.order = append(s.order, o)
			if !p.symbol(",") {
				break
			}
		}
	}
	if p.word("per") {
		p.expect("partition", "limit")
		s.perLimit = p.intTerm()
	}
	if p.word("limit") {
		s.limit = p.intTerm()
	}
	if p.word("allow") {
		p.expect("filtering")
		s.filtering = true
	}
	return s
}

// intTerm reads a whole number or a marker.
func (p *parser) intTerm() *term {
	if m, ok := p.marker(); ok {
		return m
	}
	sign := ""
	if p.symbol("-") {
		sign = "-"
	}
	if !p.at(tokInteger) {
		p.fail("INTEGER")
	}
	return &term{kind: termInteger, text: sign + p.next().text}
}

func (p *parser) aliased() *selector {
	s := p.selector(0)
	if p.word("as") {
		s.alias = p.ident()
	}
	return s
}

func (p *parser) selector(depth int) *selector {
	if depth > maxTypeDepth {
		panic(syntax("functions are nested more than %d deep", maxTypeDepth))
	}
	t := p.peek()
	switch {
	case t.isWord("cast") && p.peekAt(1).isSymbol("("):
		panic(unsupported("CAST in a selection"))
	case (t.isName() || t.isWord("token")) && p.peekAt(1).isSymbol("("):
		p.next()
		p.next()
		s := &selector{call: t.text}
		switch {
		case p.symbol(")"):
			s.text = t.text + "()"
			return s
		case t.isWord("count") && (p.symbol("*") || p.peek().text == "1" && p.at(tokInteger) && p.peekAt(1).isSymbol(")") && p.next().text != ""):
			p.expectSymbol(")")
			s.star, s.text = true, "count"
			return s
		}
		var texts []string
		for {
			a := p.selector(depth + 1)
			s.args = append(s.args, a)
			texts = append(texts, a.text)
			if !p.symbol(",") {
				break
			}
		}
		p.expectSymbol(")")
		s.text = t.text + "(" + strings.Join(texts, ", ") + ")"
		return s
	case t.isName():
		p.next()
		if p.peek().isSymbol("[") || p.peek().isSymbol(".") {
			panic(unsupported("the selection of a part of a column"))
		}
		return &selector{column: t.text, text: t.text}
	}
	return &selector{term: p.term(depth + 1), text: "?"}
}
