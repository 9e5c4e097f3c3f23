package engine

import (
	"encoding/binary"
	"slices"
)

type targetKind uint8

const (
	targetRow targetKind = iota
	targetStatic
	targetPartition
	targetRange
)

// write is one change of one partition, with all values computed, so that
// applying it cannot fail.
type write struct {
	t          *table
	pk         [][]byte
	kind       targetKind
	key        [][]byte
	start, end bound
	erase      bool // delete all of the target
	marker     *cell
	cells      []cellWrite
	ts         int64
}

type cellWrite struct {
	column *column
	path   string // of an element
	cell   *cell  // nil: delete the elements of before
	ts     int64  // of that
}

func (w *write) apply() {
	p := w.t.data.partition(w.pk, true)
	var r *row
	switch w.kind {
	case targetPartition:
		p.erase(w.ts)
		return
	case targetRange:
		p.eraseRange(w.t, w.start, w.end, w.ts)
		return
	case targetStatic:
		r = p.upsertStatic()
	default:
		r = p.upsert(w.t, w.key)
	}
	if w.erase {
		r.erase(w.ts)
		return
	}
	if w.marker != nil && w.ts > r.deleted && (r.marker == nil || !markerBeats(r.marker, w.marker)) {
		r.marker = w.marker
	}
	for _, c := range w.cells {
		s := r.grow(c.column.id)
		switch {
		case c.cell == nil:
			s.erase(max(c.ts, r.deleted))
		case c.cell.ts <= r.deleted:
		case c.column.typ.isMulti():
			s.putElem(c.path, c.cell)
		default:
			s.put(c.cell)
		}
	}
}

// retime gives the write another timestamp, if a statement asked for one of its own.
func (w *write) retime(ts int64) {
	if w.ts == ts {
		return
	}
	for i := range w.cells {
		c := &w.cells[i]
		c.ts += ts - w.ts
		if c.cell != nil {
			c.cell.ts = ts
		}
	}
	if w.marker != nil {
		w.marker.ts = ts
	}
	w.ts = ts
}

// markerBeats: of two row markers of one time, the one that expires, or expires
// later, stays.
func markerBeats(a, b *cell) bool {
	switch {
	case a.ts != b.ts:
		return a.ts > b.ts
	case (a.expiry != 0) != (b.expiry != 0):
		return a.expiry != 0
	}
	return a.expiry >= b.expiry
}

// defaultTimestamp is that of the request.
func defaultTimestamp(r *Request) int64 {
	if r.Timestamp != nil {
		return *r.Timestamp
	}
	return r.Now.UnixMicro()
}

func (p *modPlan) lifetime(s *scope) int64 {
	if p.ttl == nil {
		return p.t.defaultTTL()
	}
	b, unset := p.ttl.eval(s)
	if unset {
		return p.t.defaultTTL()
	}
	if len(b) == 0 {
		panic(invalid("Invalid null value of TTL"))
	}
	switch n := signed(b); {
	case n < 0:
		panic(invalid("A TTL must be greater or equal to 0, but was %d", n))
	case n > maxTTL:
		panic(invalid("ttl is too large. requested (%d) maximum (%d)", n, maxTTL))
	default:
		return n
	}
}

func (p *modPlan) customTimestamp(s *scope, ts int64) int64 {
	if p.timestamp == nil {
		return ts
	}
	b, unset := p.timestamp.eval(s)
	switch {
	case unset:
		return ts
	case len(b) == 0:
		panic(invalid("Invalid null value of timestamp"))
	case signed(b) == noTime:
		panic(invalid("Out of bound timestamp, must be in [%d, %d]", int64(noTime)+1, int64(1<<63-1)))
	}
	return signed(b)
}

// keys returns the partitions that the statement is about.
func keysOf(t *table, pk []*restriction, s *scope) [][][]byte {
	lists := make([][][]byte, len(pk))
	for i, r := range pk {
		lists[i] = r.eval(s)
	}
	keys := product(lists)
	for _, k := range keys {
		checkKeySize(k, t)
	}
	return keys
}

// writes computes what the statement changes, at timestamp ts unless it has one
// of its own.
func (p *modPlan) writes(s *scope, ts int64) []*write {
	ts = p.customTimestamp(s, ts)
	ttl := p.lifetime(s)
	var out []*write
	for _, pk := range keysOf(p.t, p.pk, s) {
		out = append(out, p.partitionWrites(s, pk, ts, ttl)...)
	}
	return out
}

func (p *modPlan) partitionWrites(s *scope, pk [][]byte, ts, ttl int64) []*write {
	w := write{t: p.t, pk: pk, ts: ts}
	if p.verb == verbDelete && len(p.changes) == 0 {
		return p.deletions(s, w)
	}
	var out []*write
	var statics, regulars []change
	for _, c := range p.changes {
		if c.column.isStatic() {
			statics = append(statics, c)
		} else {
			regulars = append(regulars, c)
		}
	}
	old := p.t.data.partition(pk, false)
	if len(statics) > 0 {
		w := w
		w.kind = targetStatic
		w.cells = cellWrites(s, &w, statics, old.staticRow(), ttl)
		out = append(out, &w)
	}
	if len(p.ck) == 0 && len(p.t.ck) > 0 || len(regulars) == 0 && p.verb != verbInsert {
		return out
	}
	for _, key := range p.rowKeys(s) {
		w := w
		w.key = key
		w.cells = cellWrites(s, &w, regulars, old.row(p.t, key), ttl)
		if p.verb == verbInsert {
			w.marker = newCell(s, nil, ts, ttl)
		}
		out = append(out, &w)
	}
	return out
}

// rowKeys returns the rows of a fully restricted clustering.
func (p *modPlan) rowKeys(s *scope) [][][]byte {
	if len(p.t.ck) == 0 {
		return [][][]byte{nil}
	}
	var keys [][][]byte
	for _, b := range clusteringRanges(p.t, p.ck, s) {
		keys = append(keys, b.start.prefix)
	}
	return keys
}

func (p *modPlan) deletions(s *scope, w write) []*write {
	w.erase = true
	if len(p.ck) == 0 {
		w.kind = targetPartition
		return []*write{&w}
	}
	var out []*write
	for _, b := range clusteringRanges(p.t, p.ck, s) {
		w := w
		w.start, w.end = b.start, b.end
		if len(b.start.prefix) == len(p.t.ck) && p.fullKey() {
			w.key = b.start.prefix
		} else {
			w.kind = targetRange
		}
		out = append(out, &w)
	}
	return out
}

func newCell(s *scope, value []byte, ts, ttl int64) *cell {
	c := &cell{ts: ts, ttl: ttl, value: value}
	if ttl > 0 {
		c.expiry = s.seconds() + ttl
	}
	return c
}

func tombstone(s *scope, ts int64) *cell { return &cell{ts: ts, dead: true, delAt: s.seconds()} }

// cellWrites computes the changes of one row; old is the row as it is.
func cellWrites(s *scope, w *write, changes []change, old *row, ttl int64) []cellWrite {
	var out []cellWrite
	for _, ch := range changes {
		c := ch.column
		if c.typ.isMulti() {
			out = append(out, ch.elements(s, w, old, ttl)...)
			continue
		}
		var value []byte
		if ch.value != nil {
			b, unset := ch.value.eval(s)
			if unset {
				continue
			}
			value = b
		}
		cw := cellWrite{column: c, cell: tombstone(s, w.ts)}
		if value != nil {
			cw.cell = newCell(s, value, w.ts, ttl)
		}
		out = append(out, cw)
	}
	return out
}

// elements computes the changes of a collection that is not frozen.
func (ch change) elements(s *scope, w *write, old *row, ttl int64) []cellWrite {
	c := ch.column
	var out []cellWrite
	put := func(path string, value []byte) {
		out = append(out, cellWrite{column: c, path: path, cell: newCell(s, value, w.ts, ttl)})
	}
	del := func(path string) {
		out = append(out, cellWrite{column: c, path: path, cell: tombstone(s, w.ts)})
	}
	var value []byte
	if ch.value != nil {
		b, unset := ch.value.eval(s)
		if unset {
			return nil
		}
		value = b
	}
	parts := func(t Type) [][]byte {
		if value == nil {
			return nil
		}
		list, _ := splitParts(t, value) // validated
		return list
	}
	switch ch.kind {
	case opDeleteColumn:
		return []cellWrite{{column: c, ts: w.ts}}
	case opSet, opAdd, opPrepend:
		if ch.kind == opSet {
			ts := w.ts - 1 // what is set now must survive
			if value == nil {
				ts = w.ts
			}
			out = append(out, cellWrite{column: c, ts: ts})
		}
		list := parts(c.typ)
		switch c.typ.ID {
		case TypeSet:
			for _, v := range list {
				put(string(v), nil)
			}
		case TypeMap:
			for i := 0; i < len(list); i += 2 {
				put(string(list[i]), list[i+1])
			}
		default:
			paths := w.t.data.newPaths(s, len(list), ch.kind == opPrepend)
			for i, v := range list {
				put(paths[i], v)
			}
		}
	case opSubtract:
		switch c.typ.ID {
		case TypeList:
			ch.discard(s, old, parts(c.typ), del)
		default:
			for _, v := range parts(Type{ID: TypeSet, Elems: c.typ.Elems[:1]}) {
				del(string(v))
			}
		}
	case opElement, opDeleteElement:
		path := ch.path(s, old)
		if value == nil {
			del(path)
		} else {
			put(path, value)
		}
	}
	return out
}

func (ch change) discard(s *scope, old *row, values [][]byte, del func(string)) {
	sl := old.slot(ch.column.id)
	if sl == nil {
		return
	}
	elem := ch.column.typ.Elems[0]
	for _, p := range sl.livePaths(ch.column.typ, s.seconds()) {
		if slices.ContainsFunc(values, func(v []byte) bool { return elem.compare(v, sl.elems[p].value) == 0 }) {
			del(p)
		}
	}
}

// path finds an element: of a list by its index in what is there.
func (ch change) path(s *scope, old *row) string {
	b, unset := ch.element.eval(s)
	if unset || b == nil {
		panic(invalid("Invalid null or unset value for the key or index of column %s", ch.column.name))
	}
	if ch.column.typ.ID != TypeList {
		return string(b)
	}
	sl := old.slot(ch.column.id)
	if sl == nil || !sl.liveElem(s.seconds()) {
		panic(invalid("Attempted to set or delete an element on a list which is null"))
	}
	paths, i := sl.livePaths(ch.column.typ, s.seconds()), signed(b)
	if i < 0 || i >= int64(len(paths)) {
		panic(invalid("List index %d out of bound, list has size %d", i, len(paths)))
	}
	return paths[i]
}

// newPaths returns places for n new elements, at the end of a list or before it.
func (d *data) newPaths(s *scope, n int, front bool) []string {
	paths := make([]string, n)
	for i := range paths {
		d.paths++
		if front {
			paths[n-1-i] = listPath(-d.paths)
		} else {
			paths[i] = listPath(d.paths)
		}
	}
	return paths
}

// keyRange is a range of rows in the table's order.
type keyRange struct{ start, end bound }

// clusteringRanges turns restrictions on a prefix of the clustering into ranges,
// in order. Those that a range cannot express, the caller filters.
func clusteringRanges(t *table, list []*restriction, s *scope) []keyRange {
	prefixes := [][][]byte{nil}
	open := keyRange{start: bound{inclusive: true}, end: bound{inclusive: true}}
	var sliced []*restriction
	at := 0
	for _, r := range list {
		if r.columns[0].pos != at && !(len(sliced) > 0 && r.isSlice() && r.columns[0].pos == at) {
			break
		}
		if r.isSlice() {
			sliced = append(sliced, r)
			continue
		}
		if len(sliced) > 0 || r.op != "=" && r.op != "in" {
			break
		}
		prefixes = extend(prefixes, r.tupleValues(s))
		at += len(r.columns)
	}
	slices.SortFunc(prefixes, t.compareKeys)
	prefixes = slices.CompactFunc(prefixes, func(a, b [][]byte) bool { return t.compareKeys(a, b) == 0 })
	var out []keyRange
	for _, p := range prefixes {
		k := open
		k.start.prefix, k.end.prefix = p, p
		for _, r := range sliced {
			v := slices.Concat(p, r.sliceValues(s))
			lower := r.op[0] == '>'
			if r.mixedOrder() {
				panic(unsupported("the deletion of a multi-column range over clustering columns of different order"))
			}
			if lower != r.columns[0].desc {
				k.start = bound{v, len(r.op) == 2}
			} else {
				k.end = bound{v, len(r.op) == 2}
			}
		}
		out = append(out, k)
	}
	return out
}

func extend(prefixes [][][]byte, values [][][]byte) [][][]byte {
	if len(prefixes)*len(values) > 100_000 {
		panic(invalid("too many combinations of IN"))
	}
	var out [][][]byte
	for _, p := range prefixes {
		for _, v := range values {
			out = append(out, slices.Concat(p, v))
		}
	}
	return out
}

// tupleValues returns the values of = and IN, each of len(columns) parts.
func (r *restriction) tupleValues(s *scope) [][][]byte {
	tuples := r.tuples
	switch {
	case len(r.columns) == 1 && tuples == nil:
		var out [][][]byte
		for _, v := range r.eval(s) {
			out = append(out, [][]byte{v})
		}
		return out
	case r.op == "=":
		tuples = [][]*expr{r.values}
	}
	var out [][][]byte
	for _, x := range tuples {
		out = append(out, r.evalTuple(s, x))
	}
	return out
}

func (r *restriction) sliceValues(s *scope) [][]byte { return r.evalTuple(s, r.values) }

func (r *restriction) evalTuple(s *scope, list []*expr) [][]byte {
	var out [][]byte
	for i, x := range list {
		b, unset := x.eval(s)
		switch {
		case unset:
			panic(invalid("Invalid unset value for column %s", r.columns[i].name))
		case b == nil:
			panic(invalid("Invalid null value in condition for column %s", r.columns[i].name))
		}
		out = append(out, b)
	}
	return out
}

// asBigint encodes a value of type bigint.
func asBigint(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
