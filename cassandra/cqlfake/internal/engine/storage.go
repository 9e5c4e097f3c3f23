package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// noTime is below every timestamp.
const noTime = math.MinInt64

// cell is a version of a value. Of two, [cell.beats] tells which stays.
type cell struct {
	ts     int64
	ttl    int64 // seconds; 0: none
	expiry int64 // second from which it is dead; 0: never
	dead   bool  // a tombstone
	delAt  int64 // when it became one, in seconds
	value  []byte
}

func (c *cell) live(now int64) bool {
	return c != nil && !c.dead && (c.expiry == 0 || now < c.expiry)
}

// beats: c stays and d goes. At one timestamp, what is deleted or will expire
// beats what is not, a tombstone beats a value, a later end an earlier one, and
// then the larger value counts.
func (c *cell) beats(d *cell) bool {
	if c.ts != d.ts {
		return c.ts > d.ts
	}
	if a, b := c.dead || c.expiry != 0, d.dead || d.expiry != 0; a != b {
		return a
	}
	if c.dead != d.dead {
		return c.dead
	}
	if a, b := c.end(), d.end(); a != b {
		return a > b
	}
	if c.ttl != d.ttl {
		return c.ttl < d.ttl
	}
	return bytes.Compare(c.value, d.value) >= 0
}

func (c *cell) end() int64 {
	if c.dead {
		return c.delAt
	}
	return c.expiry
}

// slot holds a column of a row.
type slot struct {
	cell *cell
	// Of a collection that is not frozen: its cells by path, and the timestamp
	// under which all older ones are deleted.
	elems   map[string]*cell
	deleted int64
}

// row is a row, or the static part of a partition. Cells that its deletions cover
// are gone already: writing them later has no effect.
type row struct {
	key     [][]byte
	marker  *cell // of INSERT
	deleted int64
	slots   []slot // by column id
}

func newRow(key [][]byte) *row { return &row{key: key, deleted: noTime} }

func (r *row) slot(id int) *slot {
	if r == nil || id >= len(r.slots) {
		return nil
	}
	return &r.slots[id]
}

func (r *row) grow(id int) *slot {
	for id >= len(r.slots) {
		r.slots = append(r.slots, slot{deleted: noTime})
	}
	return &r.slots[id]
}

func (s *slot) put(c *cell) {
	if s.cell == nil || !s.cell.beats(c) {
		s.cell = c
	}
}

func (s *slot) putElem(path string, c *cell) {
	if c.ts <= s.deleted {
		return
	}
	if s.elems == nil {
		s.elems = map[string]*cell{}
	}
	if old := s.elems[path]; old == nil || !old.beats(c) {
		s.elems[path] = c
	}
}

// erase deletes the elements of up to ts.
func (s *slot) erase(ts int64) {
	s.deleted = max(s.deleted, ts)
	for path, c := range s.elems {
		if c.ts <= s.deleted {
			delete(s.elems, path)
		}
	}
}

// erase deletes all of the row of up to ts.
func (r *row) erase(ts int64) {
	r.deleted = max(r.deleted, ts)
	if r.marker != nil && r.marker.ts <= ts {
		r.marker = nil
	}
	for i := range r.slots {
		s := &r.slots[i]
		if s.cell != nil && s.cell.ts <= ts {
			s.cell = nil
		}
		if s.elems != nil || s.deleted < ts {
			s.erase(ts)
		}
	}
}

// live: the row exists, for these columns.
func (r *row) live(columns []*column, now int64) bool {
	if r == nil {
		return false
	}
	if r.marker.live(now) {
		return true
	}
	for _, c := range columns {
		if s := r.slot(c.id); s != nil && (s.cell.live(now) || s.liveElem(now)) {
			return true
		}
	}
	return false
}

func (s *slot) liveElem(now int64) bool {
	for _, c := range s.elems {
		if c.live(now) {
			return true
		}
	}
	return false
}

// value returns the column's value, nil if it has none.
func (r *row) value(c *column, now int64) []byte {
	s := r.slot(c.id)
	if s == nil {
		return nil
	}
	if !c.typ.isMulti() {
		if !s.cell.live(now) {
			return nil
		}
		return s.cell.value
	}
	paths := s.livePaths(c.typ, now)
	if len(paths) == 0 {
		return nil
	}
	var parts [][]byte
	for _, p := range paths {
		switch c.typ.ID {
		case TypeSet:
			parts = append(parts, []byte(p))
		case TypeMap:
			parts = append(parts, []byte(p), s.elems[p].value)
		default:
			parts = append(parts, s.elems[p].value)
		}
	}
	return joinParts(c.typ, parts)
}

// livePaths returns the paths of the living elements in order.
func (s *slot) livePaths(t Type, now int64) []string {
	var paths []string
	for p, c := range s.elems {
		if c.live(now) {
			paths = append(paths, p)
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		if t.ID == TypeList {
			return cmp.Compare(a, b)
		}
		return t.Elems[0].compare([]byte(a), []byte(b))
	})
	return paths
}

// listPath makes the path of an element, so that they sort by n.
func listPath(n int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n)^1<<63))
}

// bound is an end of a range of rows: a prefix of the clustering, and whether the
// rows with that prefix are inside.
type bound struct {
	prefix    [][]byte
	inclusive bool
}

type rangeTombstone struct {
	start, end bound
	ts         int64
}

type partition struct {
	key     []byte // as hashed
	values  [][]byte
	token   int64
	deleted int64
	ranges  []rangeTombstone
	static  *row
	rows    []*row // in order
	ballot  int64  // timestamp of the last conditional write
}

// data is the content of a table.
type data struct {
	byKey   map[string]*partition
	ordered []*partition // by token
	paths   int64        // of list elements
}

func newData() *data { return &data{byKey: map[string]*partition{}} }

// partitionKey joins the values as they are hashed.
func partitionKey(values [][]byte) []byte {
	if len(values) == 1 {
		return values[0]
	}
	var key []byte
	for _, v := range values {
		key = binary.BigEndian.AppendUint16(key, uint16(len(v)))
		key = append(append(key, v...), 0)
	}
	return key
}

func comparePartitions(a, b *partition) int {
	if c := cmp.Compare(a.token, b.token); c != 0 {
		return c
	}
	return bytes.Compare(a.key, b.key)
}

// partition returns the partition of a key, and makes it with create.
func (d *data) partition(values [][]byte, create bool) *partition {
	key := partitionKey(values)
	p := d.byKey[string(key)]
	if p == nil && create {
		p = &partition{key: key, values: values, token: token(key), deleted: noTime}
		d.byKey[string(key)] = p
		i, _ := slices.BinarySearchFunc(d.ordered, p, comparePartitions)
		d.ordered = slices.Insert(d.ordered, i, p)
	}
	return p
}

func (t *table) compareKeys(a, b [][]byte) int {
	for i := range min(len(a), len(b)) {
		if c := t.ck[i].compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

func (p *partition) find(t *table, key [][]byte) (int, bool) {
	if n := len(p.rows); n == 0 || t.compareKeys(p.rows[n-1].key, key) < 0 {
		return n, false
	}
	return slices.BinarySearchFunc(p.rows, key, func(r *row, k [][]byte) int { return t.compareKeys(r.key, k) })
}

func (p *partition) row(t *table, key [][]byte) *row {
	if p == nil {
		return nil
	}
	if i, ok := p.find(t, key); ok {
		return p.rows[i]
	}
	return nil
}

func (p *partition) staticRow() *row {
	if p == nil {
		return nil
	}
	return p.static
}

// covered returns the newest deletion of a whole range that a row is in.
func (p *partition) covered(t *table, key [][]byte) int64 {
	ts := p.deleted
	for _, r := range p.ranges {
		if r.ts > ts && t.inside(key, r.start, r.end) {
			ts = r.ts
		}
	}
	return ts
}

// inside: the row is between the bounds, in the order of the table.
func (t *table) inside(key [][]byte, start, end bound) bool {
	if c := t.compareKeys(key, start.prefix); c < 0 || c == 0 && !start.inclusive {
		return false
	}
	c := t.compareKeys(key, end.prefix)
	return c < 0 || c == 0 && end.inclusive
}

// upsert returns the row to write to, with what deletes it noted.
func (p *partition) upsert(t *table, key [][]byte) *row {
	i, ok := p.find(t, key)
	if ok {
		return p.rows[i]
	}
	r := newRow(key)
	r.deleted = p.covered(t, key)
	p.rows = slices.Insert(p.rows, i, r)
	return r
}

func (p *partition) upsertStatic() *row {
	if p.static == nil {
		p.static = newRow(nil)
		p.static.deleted = p.deleted
	}
	return p.static
}

// erase deletes all of the partition of up to ts.
func (p *partition) erase(ts int64) {
	p.deleted = max(p.deleted, ts)
	p.ranges = slices.DeleteFunc(p.ranges, func(r rangeTombstone) bool { return r.ts <= ts })
	if p.static != nil {
		p.static.erase(ts)
	}
	for _, r := range p.rows {
		r.erase(ts)
	}
	p.rows = slices.DeleteFunc(p.rows, func(r *row) bool { return r.deleted <= p.deleted && r.empty() })
}

// empty: nothing is left but the deletion.
func (r *row) empty() bool {
	if r.marker != nil {
		return false
	}
	for _, s := range r.slots {
		if s.cell != nil || len(s.elems) > 0 || s.deleted > r.deleted {
			return false
		}
	}
	return true
}

func (p *partition) eraseRange(t *table, start, end bound, ts int64) {
	if ts <= p.deleted {
		return
	}
	p.ranges = append(p.ranges, rangeTombstone{start, end, ts})
	for _, r := range p.rows {
		if t.inside(r.key, start, end) {
			r.erase(ts)
		}
	}
}
