package engine

import (
	"fmt"
	"runtime/debug"
)

// CodeUnprepared is the code of the error by which Execute refuses a statement
// whose table has changed since it was prepared: prepare it again. A real server
// forgets such statements, so a client that prepared it must be told the same.
const CodeUnprepared = 0x2500

// plan is what Prepare makes of a text.
type plan struct {
	ast        any // of a statement on the schema
	t          *table
	generation int
	keyspace   string // of the connection at the time
	mod        *modPlan
	sel        *selectPlan
	batch      *batchPlan
	variables  []Column
}

type batchPlan struct {
	*batch
	mods      []*modPlan
	timestamp *expr
}

// rescue turns the panics of compilers and executors into errors. A fault of the
// engine's own becomes a server error: it must not end the user's tests.
func rescue(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		*err = &Error{Code: codeServer, Message: fmt.Sprintf("cqlfake is at fault: %v\n%s", r, debug.Stack())}
	}
}

func (e *Engine) prepare(ks, text string) (st *Statement, err error) {
	defer rescue(&err)
	ast, markers, err := parse(text)
	if err != nil {
		return nil, err
	}
	st = &Statement{Text: text}
	p := &plan{ast: ast, keyspace: ks}
	switch a := ast.(type) {
	case *modification:
		p.t = e.table(a.table, ks)
		b := newBinder(p.t, markers)
		p.mod = b.compileModification(a)
		p.variables = b.variables
		st.Conditional = a.conditional()
		st.PKIndexes = pkIndexes(p.mod.pk)
	case *selection:
		p.t = e.table(a.table, ks)
		b := newBinder(p.t, markers)
		p.sel = b.compileSelect(a)
		p.variables = b.variables
		st.Columns = p.sel.columns()
		st.PKIndexes = pkIndexes(p.sel.pk)
	case *batch:
		e.compileBatch(p, a, markers)
		for _, m := range p.batch.mods {
			st.Conditional = st.Conditional || m.conditional()
		}
	case *truncate:
		p.t = e.own(a.table, ks)
	default:
		if len(markers) > 0 {
			return nil, invalid("bind variables are not possible in this statement")
		}
	}
	if p.t != nil {
		p.generation = p.t.generation
		st.Keyspace, st.Table = p.t.keyspace, p.t.name
	}
	for i, v := range p.variables {
		if v.Name == "" {
			return nil, invalid("bind variable %d is not used", i+1)
		}
	}
	st.Variables = p.variables
	st.impl = p
	return st, nil
}

// pkIndexes returns where the values of the partition key are bound.
func pkIndexes(pk []*restriction) []uint16 {
	var out []uint16
	for _, r := range pk {
		if r == nil || r.op != "=" || r.token || r.values[0].kind != termMarker {
			return nil
		}
		out = append(out, uint16(r.values[0].marker))
	}
	return out
}

func (e *Engine) compileBatch(p *plan, a *batch, markers []string) {
	if a.ttl != nil {
		panic(invalid("Global TTL on the BATCH statement is not supported."))
	}
	bp := &batchPlan{batch: a}
	p.batch = bp
	p.variables = make([]Column, len(markers))
	merge := func(b *binder) {
		for i, ok := range b.isBound {
			if ok {
				p.variables[i] = b.variables[i]
			}
		}
	}
	for _, m := range a.statements {
		t := e.table(m.table, p.keyspace)
		b := newBinder(t, markers)
		bp.mods = append(bp.mods, b.compileModification(m))
		merge(b)
		if p.t == nil {
			p.t = t
		}
	}
	b := newBinder(&table{}, markers)
	bp.timestamp = b.compileInt(a.timestamp, TypeBigint, "[timestamp]")
	merge(b)
	checkBatch(bp.mods, a.kind == "counter", a.timestamp != nil)
}

// fresh: the tables are still those that the statement was prepared for.
func (e *Engine) fresh(p *plan) bool {
	tables := []*table{}
	if p.t != nil {
		tables = append(tables, p.t)
	}
	if p.batch != nil {
		for _, m := range p.batch.mods {
			tables = append(tables, m.t)
		}
	}
	for _, t := range tables {
		k := e.spaces[t.keyspace]
		if k == nil || k.tables[t.name] != t {
			return false
		}
	}
	return p.t == nil || p.t.generation == p.generation
}

const (
	levelAny         = 0x00
	levelSerial      = 0x08
	levelLocalSerial = 0x09
)

func (e *Engine) execute(r Request) (res Result, err error) {
	defer rescue(&err)
	var plans []*plan
	for _, b := range r.Statements {
		if b.Statement == nil {
			return res, invalid("no statement")
		}
		p, ok := b.Statement.impl.(*plan)
		if !ok {
			return res, invalid("the statement was not prepared by this engine")
		}
		if !e.fresh(p) {
			return res, &Error{Code: CodeUnprepared, Message: "the schema has changed: prepare the statement again"}
		}
		plans = append(plans, p)
	}
	if r.Batch {
		return e.protocolBatch(&r, plans), nil
	}
	if len(plans) != 1 {
		return res, invalid("one statement is expected, got %d", len(plans))
	}
	p := plans[0]
	s := &scope{e: e, now: r.Now, vals: resolve(p.variables, r.Statements[0].Values)}
	switch {
	case p.sel != nil:
		return p.sel.run(s, &r), nil
	case p.mod != nil:
		return e.modify(&r, []*modPlan{p.mod}, []*scope{s}, defaultTimestamp(&r), false), nil
	case p.batch != nil:
		ts := defaultTimestamp(&r)
		if n, ok := p.batch.timestamp.evalInt(s); ok {
			ts = n
		}
		scopes := make([]*scope, len(p.batch.mods))
		for i := range scopes {
			scopes[i] = s
		}
		return e.modify(&r, p.batch.mods, scopes, ts, true), nil
	}
	return e.schemaChange(p), nil
}

func (e *Engine) schemaChange(p *plan) Result {
	switch a := p.ast.(type) {
	case *useStatement:
		if e.spaces[a.keyspace] == nil {
			panic(invalid("Keyspace '%s' does not exist", a.keyspace))
		}
		return Result{Kind: SetKeyspace, Keyspace: a.keyspace}
	case *truncate:
		p.t.data = newData()
		return Result{Kind: Void}
	case *createKeyspace:
		return e.createKeyspace(a)
	case *createTable:
		return e.createTable(a, p.keyspace)
	case *alterTable:
		return e.alterTable(a, p.keyspace)
	case *drop:
		return e.drop(a, p.keyspace)
	}
	panic(unsupported("this statement"))
}

// resolve puts the values in the order of the variables.
func resolve(variables []Column, values []Value) []Value {
	named := false
	for _, v := range values {
		named = named || v.Name != ""
	}
	if !named {
		if len(values) != len(variables) {
			panic(invalid("Invalid amount of bind variables: %d expected, %d given", len(variables), len(values)))
		}
		return values
	}
	byName := map[string]Value{}
	for _, v := range values {
		byName[v.Name] = v
	}
	out := make([]Value, len(variables))
	for i, c := range variables {
		v, ok := byName[c.Name]
		if !ok {
			panic(invalid("There is no value for the bind variable %s", c.Name))
		}
		out[i] = v
	}
	return out
}

func (e *Engine) protocolBatch(r *Request, plans []*plan) Result {
	var mods []*modPlan
	var scopes []*scope
	for i, p := range plans {
		if p.mod == nil {
			panic(invalid("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."))
		}
		mods = append(mods, p.mod)
		scopes = append(scopes, &scope{e: e, now: r.Now, vals: resolve(p.variables, r.Statements[i].Values)})
	}
	checkBatch(mods, r.Counter, false)
	return e.modify(r, mods, scopes, defaultTimestamp(r), true)
}

func checkBatch(mods []*modPlan, counter, timestamp bool) {
	conditional := false
	for _, m := range mods {
		conditional = conditional || m.conditional()
	}
	for _, m := range mods {
		switch {
		case timestamp && conditional:
			panic(invalid("Cannot provide custom timestamp for conditional BATCH"))
		case timestamp && m.timestamp != nil:
			panic(invalid("Timestamp must be set either on BATCH or individual statements"))
		case counter:
			panic(invalid("Cannot include non-counter statement in a counter batch"))
		case conditional && m.t != mods[0].t:
			panic(invalid("Batch with conditions cannot span multiple tables"))
		}
	}
}

// modify carries modifications out, all or none.
func (e *Engine) modify(r *Request, mods []*modPlan, scopes []*scope, ts int64, isBatch bool) Result {
	for _, m := range mods {
		if m.conditional() {
			return e.cas(r, mods, scopes, isBatch)
		}
	}
	if r.Consistency == levelSerial || r.Consistency == levelLocalSerial {
		panic(invalid("You must use conditional updates for serializable writes"))
	}
	var all []*write
	for i, m := range mods {
		all = append(all, m.writes(scopes[i], ts)...)
	}
	for _, w := range all {
		w.apply()
	}
	return Result{Kind: Void}
}
