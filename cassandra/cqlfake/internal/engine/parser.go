package engine

import "strings"

// reserved are the words that cannot be names without quotes.
var reserved = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`add allow alter and apply asc authorize batch begin by columnfamily create
		delete desc describe drop entries execute from full grant if in index infinity insert into is keyspace limit
		materialized modify nan norecursive not null of on or order primary rename revoke schema select set table to
		token truncate unlogged unset update use using view where with`) {
		m[w] = true
	}
	return m
}()

// parser reads one statement by recursive descent. It looks one token ahead, at
// some places two, and never goes back: the time is linear in the text. Depth is
// bounded. Errors leave it by panic(*Error), which rescue turns into one.
type parser struct {
	text    string
	tokens  []lexeme
	i       int
	markers []string // names of the bind variables; empty: by position
}

func newParser(text string) (*parser, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	return &parser{text: text, tokens: tokens}, nil
}

// parse reads a whole text: one statement, perhaps with a semicolon. It returns
// the names of the bind variables too.
func parse(text string) (stmt any, markers []string, err error) {
	p, err := newParser(text)
	if err != nil {
		return nil, nil, err
	}
	defer p.rescue(&err)
	if p.at(tokEOF) {
		panic(syntax("line 0:-1 no viable alternative at input '<EOF>'"))
	}
	stmt = p.statement()
	for p.symbol(";") {
	}
	if !p.at(tokEOF) {
		p.fail("")
	}
	return stmt, p.markers, nil
}

func (p *parser) rescue(err *error) {
	if r := recover(); r != nil {
		e, ok := r.(*Error)
		if !ok {
			panic(r)
		}
		*err = e
	}
}

// fail ends the parse at the present token.
func (p *parser) fail(want string) {
	t := p.peek()
	shown := t.text
	if t.kind == tokEOF {
		shown = "<EOF>"
	}
	if len(shown) > 40 {
		shown = shown[:40]
	}
	line := 1 + strings.Count(p.text[:t.pos], "\n")
	col := t.pos - (strings.LastIndexByte(p.text[:t.pos], '\n') + 1)
	if want == "" {
		panic(syntax("line %d:%d no viable alternative at input '%s'", line, col, shown))
	}
	panic(syntax("line %d:%d mismatched input '%s' expecting %s", line, col, shown, want))
}

func (p *parser) peek() lexeme { return p.tokens[p.i] }

func (p *parser) peekAt(n int) lexeme {
	if p.i+n < len(p.tokens) {
		return p.tokens[p.i+n]
	}
	return p.tokens[len(p.tokens)-1]
}

func (p *parser) at(k tokenKind) bool { return p.peek().kind == k }

func (p *parser) next() lexeme {
	t := p.peek()
	if t.kind != tokEOF {
		p.i++
	}
	return t
}

func (t lexeme) isWord(w string) bool   { return t.kind == tokWord && t.text == w }
func (t lexeme) isSymbol(s string) bool { return t.kind == tokSymbol && t.text == s }

// word takes these keywords if they are next.
func (p *parser) word(words ...string) bool {
	for i, w := range words {
		if !p.peekAt(i).isWord(w) {
			return false
		}
	}
	p.i += len(words)
	return true
}

func (p *parser) expect(words ...string) {
	for _, w := range words {
		if !p.word(w) {
			p.fail("K_" + strings.ToUpper(w))
		}
	}
}

func (p *parser) symbol(s string) bool {
	if p.peek().isSymbol(s) {
		p.i++
		return true
	}
	return false
}

func (p *parser) expectSymbol(s string) {
	if !p.symbol(s) {
		p.fail("'" + s + "'")
	}
}

func (t lexeme) isName() bool {
	return t.kind == tokQuoted || t.kind == tokWord && !reserved[t.text]
}

// ident reads a name.
func (p *parser) ident() string {
	if !p.peek().isName() {
		p.fail("")
	}
	return p.next().text
}

func (p *parser) identList() []string {
	p.expectSymbol("(")
	list := []string{p.ident()}
	for p.symbol(",") {
		list = append(list, p.ident())
	}
	p.expectSymbol(")")
	return list
}

func (p *parser) tableName() name {
	n := name{table: p.ident()}
	if p.symbol(".") {
		n = name{keyspace: n.table, table: p.ident()}
	}
	return n
}

func (p *parser) statement() any {
	t := p.peek()
	if t.kind != tokWord {
		p.fail("")
	}
	switch t.text {
	case "select":
		return p.selectStatement()
	case "insert", "update", "delete":
		return p.modification()
	case "begin":
		return p.batch()
	case "use":
		p.next()
		return &useStatement{p.ident()}
	case "truncate":
		p.next()
		_ = p.word("table") || p.word("columnfamily")
		return &truncate{p.tableName()}
	case "create", "alter", "drop":
		return p.schemaStatement()
	case "grant", "revoke", "list", "describe", "desc", "comment", "add":
		panic(unsupported(strings.ToUpper(t.text)))
	}
	p.fail("")
	return nil
}

// parseType reads a type.
func (p *parser) parseType(depth int) Type {
	if depth > maxTypeDepth {
		panic(syntax("types are nested more than %d deep", maxTypeDepth))
	}
	if p.at(tokString) {
		panic(unsupported("custom types such as '" + p.peek().text + "'"))
	}
	word := p.peek()
	if word.kind != tokWord && word.kind != tokQuoted {
		p.fail("")
	}
	p.next()
	if id, ok := typeIDs[word.text]; ok && word.kind == tokWord {
		return Type{ID: id}
	}
	elems := func(n int) []Type {
		p.expectSymbol("<")
		list := []Type{p.parseType(depth + 1)}
		for p.symbol(",") {
			list = append(list, p.parseType(depth+1))
		}
		p.expectSymbol(">")
		if n > 0 && len(list) != n {
			p.fail("")
		}
		return list
	}
	if word.kind == tokWord && p.peek().isSymbol("<") {
		switch word.text {
		case "frozen":
			t := elems(1)[0]
			if !t.isCollection() && t.ID != TypeTuple {
				panic(syntax("frozen<> is only allowed on collections, tuples, and user-defined types (got %s)", t))
			}
			return t.freeze()
		case "list":
			return Type{ID: TypeList, Elems: checkElems(word.text, elems(1))}
		case "set":
			return Type{ID: TypeSet, Elems: checkElems(word.text, elems(1))}
		case "map":
			return Type{ID: TypeMap, Elems: checkElems(word.text, elems(2))}
		case "tuple":
			return Type{ID: TypeTuple, Elems: checkElems(word.text, elems(0))}.freeze()
		case "vector":
			panic(unsupported("vectors"))
		}
	}
	if word.text == "empty" || p.peek().isSymbol("<") {
		p.fail("")
	}
	panic(invalid("Unknown type %s (cqlfake supports no user-defined types)", word.text))
}

func checkElems(kind string, elems []Type) []Type {
	for i, e := range elems {
		switch {
		case e.ID == TypeCounter:
			panic(invalid("Counters are not allowed inside collections: %s<%s>", kind, e))
		case kind == "tuple":
		case e.isCollection() && !e.Frozen:
			panic(invalid("Non-frozen collections are not allowed inside collections: %s<%s>", kind, e))
		case e.ID == TypeDuration && (kind == "set" || kind == "map" && i == 0):
			panic(invalid("Durations are not allowed as %s keys or set elements", kind))
		}
	}
	return elems
}
