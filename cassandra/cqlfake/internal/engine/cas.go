package engine

import (
	"bytes"
	"slices"
)

// rowConditions are the conditions on one row, or on the static part.
type rowConditions struct {
	key               [][]byte
	exists, notExists bool
	checks            []check
}

func (rc *rowConditions) mix(kind string) {
	switch {
	case kind != "exists" && rc.exists, kind != "not exists" && rc.notExists, kind != "" && len(rc.checks) > 0:
		if kind == "" || len(rc.checks) > 0 {
			panic(invalid("Cannot mix IF conditions and IF EXISTS or IF NOT EXISTS for the same row"))
		}
		panic(invalid("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"))
	}
}

// casRequest is a conditional statement or batch, over one partition.
type casRequest struct {
	t      *table
	p      *partition
	pk     [][]byte
	now    int64
	rows   []*rowConditions // in order
	static *rowConditions
	// A conditional statement changes the static part, any statement rows: for the
	// columns that are read.
	updatesStatic, updatesRegular bool
	conditionColumns              []*column // in the order of the texts, once each
}

func (q *casRequest) conditionsOf(key [][]byte) *rowConditions {
	i, ok := slices.BinarySearchFunc(q.rows, key, func(rc *rowConditions, k [][]byte) int { return q.t.compareKeys(rc.key, k) })
	if !ok {
		q.rows = slices.Insert(q.rows, i, &rowConditions{key: key})
	}
	return q.rows[i]
}

func (q *casRequest) staticConditions() *rowConditions {
	if q.static == nil {
		q.static = &rowConditions{}
	}
	return q.static
}

func (e *Engine) cas(r *Request, mods []*modPlan, scopes []*scope, isBatch bool) Result {
	if r.Consistency == levelSerial || r.Consistency == levelLocalSerial {
		panic(invalid("SERIAL is not supported as conditional update commit consistency"))
	}
	if r.Serial != 0 && r.Serial != levelSerial && r.Serial != levelLocalSerial {
		panic(invalid("Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL"))
	}
	q := &casRequest{t: mods[0].t, now: scopes[0].seconds()}
	wildcard := false
	for i, m := range mods {
		q.add(m, scopes[i])
		wildcard = wildcard || m.ifExists || m.ifNotExists
	}
	q.p = q.t.data.partition(q.pk, false)
	// Like a ballot: of the coordinator's clock in milliseconds, and above all before.
	ts := r.Now.UnixMilli() * 1000
	if q.p != nil {
		ts = max(ts, q.p.ballot+1)
	}
	if !q.holds() {
		return q.refusal(wildcard, isBatch)
	}
	var all []*write
	for i, m := range mods {
		all = append(all, m.writes(scopes[i], ts)...)
	}
	for _, w := range all {
		// The server gives all the timestamp of the ballot, but in a batch the deletion
		// of a range or a partition has that of an ordinary write, which is before. The
		// client's own counts for neither.
		w.retime(ts)
		if isBatch && (w.kind == targetRange || w.kind == targetPartition) {
			w.ts = ts - 1
		}
	}
	for _, w := range all {
		w.apply()
	}
	q.t.data.partition(q.pk, true).ballot = ts
	return Result{Kind: Rows, Columns: []Column{q.applied()}, Rows: [][][]byte{{{1}}}}
}

// add takes a statement into the request.
func (q *casRequest) add(m *modPlan, s *scope) {
	keys := keysOf(m.t, m.pk, s)
	if len(keys) != 1 {
		// The server's own mistake: it answers a server error.
		panic(&Error{Code: codeServer, Message: "java.lang.IllegalArgumentException: Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)"})
	}
	if q.pk != nil && !bytes.Equal(partitionKey(q.pk), partitionKey(keys[0])) {
		panic(invalid("Batch with conditions cannot span multiple partitions"))
	}
	q.pk = keys[0]
	for _, r := range m.ck {
		if r.op == "in" {
			panic(invalid("IN on the clustering key columns is not supported with conditional updates"))
		}
	}
	static, regular := m.updates()
	q.updatesRegular = q.updatesRegular || regular
	if !m.conditional() {
		return
	}
	q.updatesStatic = q.updatesStatic || static
	var target *rowConditions
	row := func() *rowConditions {
		if target == nil {
			target = q.target(m, s)
		}
		return target
	}
	switch {
	case m.ifExists:
		row().mix("exists")
		row().exists = true
	case m.ifNotExists:
		row().mix("not exists")
		row().notExists = true
	}
	for _, static := range []bool{false, true} {
		for _, c := range m.conds {
			if c.column.isStatic() != static {
				continue
			}
			target := row
			if static {
				target = q.staticConditions
			}
			rc := target()
			rc.mix("")
			rc.checks = append(rc.checks, c.eval(s))
			if !slices.Contains(q.conditionColumns, c.column) {
				q.conditionColumns = append(q.conditionColumns, c.column)
			}
		}
	}
}

// target returns the conditions of the row that a statement is about.
func (q *casRequest) target(m *modPlan, s *scope) *rowConditions {
	if len(q.t.ck) > 0 && len(m.ck) == 0 {
		return q.staticConditions()
	}
	return q.conditionsOf(m.rowKeys(s)[0])
}

// read returns the columns that are read; a refusal tells no others, and a row
// that has none of them and no marker does not exist for it. Where a statement
// writes, all are, so that "exists" does not depend on what is asked.
func (q *casRequest) read() (statics, regulars []*column) {
	for _, c := range q.conditionColumns {
		if c.isStatic() {
			statics = append(statics, c)
		} else {
			regulars = append(regulars, c)
		}
	}
	if q.updatesStatic {
		statics = q.t.statics
	}
	if q.updatesRegular {
		regulars = q.t.regular
	}
	return statics, regulars
}

func (q *casRequest) holds() bool {
	statics, regulars := q.read()
	check := func(rc *rowConditions, r *row, columns []*column) bool {
		exists := r.live(columns, q.now)
		if rc.exists && !exists || rc.notExists && exists {
			return false
		}
		slices.SortStableFunc(rc.checks, func(a, b check) int { return a.column.rank() - b.column.rank() })
		for _, c := range rc.checks {
			var v []byte
			if r != nil {
				v = r.value(c.column, q.now)
			}
			if !c.holds(v) {
				return false
			}
		}
		return true
	}
	if q.static != nil && !check(q.static, q.p.staticRow(), statics) {
		return false
	}
	for _, rc := range q.rows {
		if !check(rc, q.p.row(q.t, rc.key), regulars) {
			return false
		}
	}
	return true
}

func (q *casRequest) applied() Column {
	return Column{Keyspace: q.t.keyspace, Table: q.t.name, Name: "[applied]", Type: Type{ID: TypeBoolean}}
}

// refusal tells what is there: every column when an existence was asked for, else
// those of the conditions, in a batch with the primary key before them.
func (q *casRequest) refusal(wildcard, isBatch bool) Result {
	columns := q.t.columns
	if !wildcard {
		columns = nil
		if isBatch {
			columns = append(columns, slices.Concat(q.t.pk, q.t.ck)...)
		}
		columns = append(columns, q.conditionColumns...)
	}
	res := Result{Kind: Rows, Columns: []Column{q.applied()}}
	statics, regulars := q.read()
	static := q.p.staticRow()
	if !static.live(statics, q.now) {
		static = nil
	}
	var found []*row
	if len(q.rows) == 0 {
		found = q.first(regulars)
	}
	for _, rc := range q.rows {
		if r := q.p.row(q.t, rc.key); r.live(regulars, q.now) {
			found = append(found, r)
		}
	}
	if len(found) == 0 && static == nil {
		res.Rows = [][][]byte{{{0}}}
		return res
	}
	if len(found) == 0 {
		found = []*row{nil}
	}
	for _, c := range columns {
		res.Columns = append(res.Columns, c.result(q.t))
	}
	for _, r := range found {
		out := [][]byte{{0}}
		for _, c := range columns {
			var v []byte
			switch {
			case c.kind == "partition_key":
				v = q.pk[c.pos]
			case c.kind == "clustering" && r != nil:
				v = r.key[c.pos]
			case c.isStatic() && static != nil && slices.Contains(statics, c):
				v = static.value(c, q.now)
			case !c.isKey() && !c.isStatic() && r != nil && slices.Contains(regulars, c):
				v = r.value(c, q.now)
			}
			out = append(out, v)
		}
		res.Rows = append(res.Rows, out)
	}
	return res
}

// first returns the row that is read along when only the static part is asked
// about: the first one.
func (q *casRequest) first(regulars []*column) []*row {
	if q.p == nil {
		return nil
	}
	for _, r := range q.p.rows {
		if r.live(regulars, q.now) {
			return []*row{r}
		}
	}
	return nil
}

func (c *column) result(t *table) Column {
	return Column{Keyspace: t.keyspace, Table: t.name, Name: c.name, Type: c.typ}
}
