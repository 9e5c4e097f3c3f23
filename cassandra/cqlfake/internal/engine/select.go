package engine

import (
	"bytes"
	"slices"
)

// budget is what a SELECT may still return.
type budget struct {
	total int64 // of LIMIT; negative: no bound
	page  int64 // of the page; negative: no bound
}

func (p *selectPlan) run(s *scope, r *Request) Result {
	if r.Consistency == levelAny {
		panic(invalid("ANY ConsistencyLevel is only supported for writes"))
	}
	limit := func(e *expr, what string) int64 {
		n, ok := e.evalInt(s)
		if !ok {
			return -1
		}
		if n <= 0 {
			panic(invalid("%s must be strictly positive", what))
		}
		return n
	}
	left := budget{total: limit(p.limit, "LIMIT"), page: -1}
	per := limit(p.perLimit, "PER PARTITION LIMIT")
	if r.PageSize > 0 {
		if p.postSort {
			panic(invalid("Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query"))
		}
		if !p.aggregate {
			left.page = int64(r.PageSize)
		}
	}
	from := cursor{}
	if len(r.PagingState) > 0 {
		from = decodeCursor(p.t, r.PagingState)
		if left.total >= 0 {
			left.total = from.left
		}
	}
	res := Result{Kind: Rows, Columns: p.columns()}
	var records []*record
	last := cursor{}
	more := false
	p.walk(s)(from, per, func(rec *record, ofPartition int64) bool {
		switch {
		case left.total == 0 && !p.aggregate && !p.postSort:
			return false
		case left.page == 0:
			more = true
			return false
		}
		if left.total > 0 && !p.aggregate && !p.postSort {
			left.total--
		}
		if left.page > 0 {
			left.page--
		}
		if !p.aggregate && !p.postSort {
			res.Rows = append(res.Rows, p.project(s, rec))
			last = cursor{partition: rec.p, row: rec.row, rows: ofPartition}
			return true
		}
		records = append(records, rec)
		return true
	})
	switch {
	case p.aggregate:
		res.Rows = [][][]byte{p.fold(s, records)}
	case p.postSort:
		slices.SortStableFunc(records, func(a, b *record) int { return p.compareRecords(a, b) })
		for _, rec := range records {
			if left.total >= 0 && int64(len(res.Rows)) == left.total {
				break
			}
			res.Rows = append(res.Rows, p.project(s, rec))
		}
	}
	if more {
		last.left = left.total
		res.PagingState = last.encode()
	}
	return res
}

// compareRecords orders rows of several partitions as ORDER BY asks.
func (p *selectPlan) compareRecords(a, b *record) int {
	if a.row == nil || b.row == nil {
		return btoi(a.row != nil) - btoi(b.row != nil)
	}
	c := p.t.compareKeys(a.row.key, b.row.key)
	if p.reverse {
		return -c
	}
	return c
}

func (p *selectPlan) project(s *scope, rec *record) [][]byte {
	out := make([][]byte, len(p.out))
	for i, o := range p.out {
		out[i] = o.eval(s, p.t, rec)
	}
	return out
}

// fold computes the aggregates; a plain column beside them has the first row's value.
func (p *selectPlan) fold(s *scope, records []*record) [][]byte {
	out := make([][]byte, len(p.out))
	for i, o := range p.out {
		if !o.aggregate {
			if len(records) > 0 {
				out[i] = o.eval(s, p.t, records[0])
			}
			continue
		}
		count := int64(0)
		for _, rec := range records {
			if len(o.args) == 0 {
				count++
				continue
			}
			v := o.args[0].eval(s, p.t, rec)
			if v == nil {
				continue
			}
			count++
			c := 0
			if out[i] != nil {
				c = o.args[0].result.Type.compare(v, out[i])
			}
			if out[i] == nil || o.call == "min" && c < 0 || o.call == "max" && c > 0 {
				out[i] = v
			}
		}
		if o.call == "count" {
			out[i] = asBigint(count)
		}
	}
	return out
}

// walk returns a function that goes through the rows, in order, from a cursor on,
// until yield returns false. It passes how many of the partition came before.
func (p *selectPlan) walk(s *scope) func(cursor, int64, func(*record, int64) bool) {
	filters := p.bindFilters(s)
	ranges := clusteringRanges(p.t, p.ck, s)
	if p.reverse {
		slices.Reverse(ranges)
	}
	partitions := p.partitions(s)
	return func(from cursor, per int64, yield func(*record, int64) bool) {
		for _, part := range partitions {
			var count int64
			var after *row
			if from.partition != nil {
				c := p.comparePosition(part, from.partition)
				if c < 0 || c == 0 && (from.row == nil || p.distinct) {
					continue
				}
				if c == 0 {
					after, count = from.row, from.rows
				}
			}
			ok := p.walkPartition(s, part, ranges, after, func(rec *record) bool {
				if per >= 0 && count >= per {
					return true
				}
				for _, f := range filters {
					if !f.matches(p.t, rec, s.seconds()) {
						return true
					}
				}
				count++
				return yield(rec, count)
			})
			if !ok {
				return
			}
		}
	}
}

// comparePosition orders partitions as the query goes through them.
func (p *selectPlan) comparePosition(a, b *partition) int {
	if !p.keyed {
		return comparePartitions(a, b)
	}
	for i, c := range p.t.pk {
		if c := c.typ.compare(a.values[i], b.values[i]); c != 0 {
			return c
		}
	}
	return 0
}

// partitions lists what the query goes through: by token, but if their keys are
// given, in the order of the keys.
func (p *selectPlan) partitions(s *scope) []*partition {
	d := p.t.data
	if p.keyed {
		var out []*partition
		for _, key := range keysOf(p.t, p.pk, s) {
			if part := d.partition(key, false); part != nil {
				out = append(out, part)
			}
		}
		return out
	}
	out := d.ordered
	for _, r := range p.tokens {
		b, unset := r.values[0].eval(s)
		if unset || len(b) == 0 {
			panic(invalid("Invalid null token value"))
		}
		bound := signed(b)
		kept := []*partition{}
		for _, part := range out {
			c := btoi(part.token > bound) - btoi(part.token < bound)
			if satisfies(r.op, c) {
				kept = append(kept, part)
			}
		}
		out = kept
	}
	return out
}

// walkPartition goes through the rows of a partition. It returns false when yield
// has.
func (p *selectPlan) walkPartition(s *scope, part *partition, ranges []keyRange, after *row, yield func(*record) bool) bool {
	now := s.seconds()
	static := part.static
	if !static.live(p.t.statics, now) {
		static = nil
	}
	live := func(r *row) bool { return r.live(p.t.regular, now) }
	if p.distinct {
		if static != nil || slices.ContainsFunc(part.rows, live) {
			return yield(&record{p: part, static: static})
		}
		return true
	}
	any := false
	for _, rg := range ranges {
		lo, _ := slices.BinarySearchFunc(part.rows, rg.start, func(r *row, b bound) int {
			if c := p.t.compareKeys(r.key, b.prefix); c != 0 {
				return c
			}
			return 2*btoi(b.inclusive) - 1 // the first of them, or the first after
		})
		hi, _ := slices.BinarySearchFunc(part.rows, rg.end, func(r *row, b bound) int {
			if c := p.t.compareKeys(r.key, b.prefix); c != 0 {
				return c
			}
			return 1 - 2*btoi(b.inclusive)
		})
		for i := lo; i < hi; i++ {
			r := part.rows[i]
			if p.reverse {
				r = part.rows[hi-1-(i-lo)]
			}
			if !live(r) {
				continue
			}
			any = true
			if after != nil {
				if c := p.t.compareKeys(r.key, after.key); c == 0 || (c < 0) != p.reverse {
					continue
				}
			}
			if !yield(&record{p: part, static: static, row: r}) {
				return false
			}
		}
	}
	if !any && static != nil && !p.rowsOnly && after == nil {
		return yield(&record{p: part, static: static})
	}
	return true
}

// filter is a restriction with its values.
type filter struct {
	r      *restriction
	values [][][]byte // tuples of which one must match; of contains: one
}

func (p *selectPlan) bindFilters(s *scope) []filter {
	var out []filter
	for _, r := range p.filters {
		f := filter{r: r}
		switch {
		case r.op == "contains" || r.op == "contains key":
			f.values = [][][]byte{r.evalTuple(s, r.values)}
		case r.isSlice():
			f.values = [][][]byte{r.sliceValues(s)}
		default:
			f.values = r.tupleValues(s)
		}
		out = append(out, f)
	}
	return out
}

func (f filter) matches(t *table, rec *record, now int64) bool {
	if f.r.op == "contains" || f.r.op == "contains key" {
		return f.contains(rec, now)
	}
	values := make([][]byte, len(f.r.columns))
	for i, c := range f.r.columns {
		if values[i] = rec.value(c, now); values[i] == nil {
			return false
		}
	}
	op := f.r.op
	if op == "in" {
		op = "="
	}
	for _, want := range f.values {
		c := 0
		for i := 0; i < len(want) && c == 0; i++ {
			c = f.r.columns[i].typ.compare(values[i], want[i])
		}
		if satisfies(op, c) {
			return true
		}
	}
	return false
}

func (f filter) contains(rec *record, now int64) bool {
	c := f.r.columns[0]
	v := rec.value(c, now)
	if v == nil {
		return false
	}
	parts, _ := splitParts(c.typ, v)
	want := f.values[0][0]
	step, offset, elem := 1, 0, c.typ.Elems[0]
	if c.typ.ID == TypeMap {
		step = 2
		if f.r.op == "contains" {
			offset, elem = 1, c.typ.Elems[1]
		}
	}
	for i := offset; i < len(parts); i += step {
		if bytes.Equal(parts[i], want) || elem.compare(parts[i], want) == 0 {
			return true
		}
	}
	return false
}
