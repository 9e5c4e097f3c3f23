package engine

import "strings"

func (p *parser) ifNotExists() bool { return p.word("if", "not", "exists") }

func (p *parser) schemaStatement() any {
	action := p.next().text
	kind := p.next()
	if kind.kind != tokWord {
		p.i--
		p.fail("")
	}
	switch kind.text {
	case "keyspace", "schema":
		switch action {
		case "create":
			s := &createKeyspace{ifNotExists: p.ifNotExists()}
			s.name = p.ident()
			p.mustBe("with")
			s.properties = p.properties(nil)
			return s
		case "alter":
			s := &createKeyspace{alter: true, ifExists: p.word("if", "exists")}
			s.name = p.ident()
			p.mustBe("with")
			s.properties = p.properties(nil)
			return s
		}
		s := &drop{ifExists: p.word("if", "exists")}
		s.keyspace = p.ident()
		return s
	case "table", "columnfamily":
		switch action {
		case "create":
			return p.createTable()
		case "alter":
			return p.alterTable()
		}
		s := &drop{isTable: true, ifExists: p.word("if", "exists")}
		s.table = p.tableName()
		return s
	case "index", "custom", "type", "function", "aggregate", "or", "materialized", "trigger", "role", "user", "identity":
		panic(unsupported(strings.ToUpper(action + " " + kind.text)))
	}
	p.i--
	p.fail("")
	return nil
}

// mustBe fails unless the keyword is next; it does not take it.
func (p *parser) mustBe(word string) {
	if !p.peek().isWord(word) {
		p.fail("K_" + strings.ToUpper(word))
	}
}

// properties reads WITH a = b AND ….
func (p *parser) properties(t *createTable) []property {
	var list []property
	if !p.word("with") {
		return nil
	}
	for {
		switch {
		case t != nil && p.word("compact"):
			panic(unsupported("COMPACT STORAGE"))
		case t != nil && p.word("clustering", "order", "by"):
			p.expectSymbol("(")
			for {
				c := p.ident()
				t.order = append(t.order, c)
				if p.word("desc") {
					t.desc[c] = true
				} else if !p.word("asc") {
					p.fail("")
				}
				if !p.symbol(",") {
					break
				}
			}
			p.expectSymbol(")")
		default:
			key := p.ident()
			p.expectSymbol("=")
			list = append(list, property{key: key, value: p.propertyValue()})
		}
		if !p.word("and") {
			return list
		}
	}
}

func (p *parser) propertyValue() any {
	if !p.symbol("{") {
		return p.scalar()
	}
	m := map[string]string{}
	if p.symbol("}") {
		return m
	}
	for {
		key := p.scalar()
		p.expectSymbol(":")
		m[key] = p.scalar()
		if !p.symbol(",") {
			break
		}
	}
	p.expectSymbol("}")
	return m
}

// scalar reads a literal as its text.
func (p *parser) scalar() string {
	sign := ""
	if p.symbol("-") {
		sign = "-"
	}
	t := p.next()
	switch t.kind {
	case tokInteger, tokFloat:
		return sign + t.text
	case tokString, tokUUID, tokHex:
		if sign == "" {
			return t.text
		}
	case tokWord:
		if sign == "" && (!reserved[t.text] || t.text == "nan" || t.text == "infinity") {
			return t.text
		}
	}
	if t.kind != tokEOF {
		p.i--
	}
	p.fail("")
	return ""
}

func (p *parser) createTable() *createTable {
	s := &createTable{desc: map[string]bool{}, ifNotExists: p.ifNotExists()}
	s.table = p.tableName()
	if p.word("like") {
		panic(unsupported("CREATE TABLE LIKE"))
	}
	p.expectSymbol("(")
	keys := 0
	for {
		if p.word("primary") {
			p.expect("key")
			p.primaryKey(s)
			keys++
		} else {
			c := p.columnDef()
			if p.word("primary") {
				p.expect("key")
				s.partition = []string{c.Name}
				keys++
			}
			s.columns = append(s.columns, c)
		}
		if !p.symbol(",") {
			break
		}
	}
	p.expectSymbol(")")
	switch {
	case keys == 0:
		panic(invalid("No PRIMARY KEY specifed for table '%s' (exactly one required)", s.table.table))
	case keys > 1:
		panic(invalid("Multiple PRIMARY KEYs specifed for table '%s' (exactly one required)", s.table.table))
	}
	s.properties = p.properties(s)
	return s
}

func (p *parser) columnDef() ColumnDef {
	c := ColumnDef{Name: p.ident(), Kind: "regular", Position: -1}
	c.Type = p.parseType(0)
	if p.word("static") {
		c.Kind = "static"
	}
	if p.word("masked") {
		panic(unsupported("masked columns"))
	}
	return c
}

func (p *parser) primaryKey(s *createTable) {
	p.expectSymbol("(")
	if p.peek().isSymbol("(") {
		s.partition = p.identList()
	} else {
		s.partition = []string{p.ident()}
	}
	for p.symbol(",") {
		s.clustering = append(s.clustering, p.ident())
	}
	p.expectSymbol(")")
}

func (p *parser) alterTable() *alterTable {
	s := &alterTable{ifExists: p.word("if", "exists")}
	s.table = p.tableName()
	switch {
	case p.word("add"):
		s.ifNotExists = p.ifNotExists()
		if p.symbol("(") {
			s.add = append(s.add, p.columnDef())
			for p.symbol(",") {
				s.add = append(s.add, p.columnDef())
			}
			p.expectSymbol(")")
			return s
		}
		s.add = append(s.add, p.columnDef())
		for p.symbol(",") {
			s.add = append(s.add, p.columnDef())
		}
	case p.word("drop"):
		if p.peek().isWord("compact") && p.peekAt(1).isWord("storage") {
			panic(unsupported("DROP COMPACT STORAGE"))
		}
		s.colIfExists = p.word("if", "exists")
		if p.peek().isSymbol("(") {
			s.drop = p.identList()
		} else {
			s.drop = []string{p.ident()}
		}
		if p.word("using") {
			panic(unsupported("DROP … USING TIMESTAMP"))
		}
	case p.word("rename"):
		s.colIfExists = p.word("if", "exists")
		for {
			from := p.ident()
			p.expect("to")
			s.rename = append(s.rename, [2]string{from, p.ident()})
			if !p.word("and") {
				break
			}
		}
	case p.peek().isWord("with"):
		s.properties = p.properties(nil)
	case p.peek().isWord("alter"):
		panic(invalid("Altering column types is no longer supported"))
	default:
		p.fail("")
	}
	return s
}
