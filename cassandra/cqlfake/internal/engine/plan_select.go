package engine

import "slices"

// selectPlan is a compiled SELECT.
type selectPlan struct {
	*selection
	t         *table
	out       []*output
	pk        []*restriction // = or IN by column; nil entries without keyed
	keyed     bool           // the partition key is given
	tokens    []*restriction
	ck        []*restriction // those that bound the rows of a partition
	filters   []*restriction // all that each row must satisfy
	reverse   bool
	postSort  bool // IN on the partition key with ORDER BY
	limit     *expr
	perLimit  *expr
	rowsOnly  bool // rows are asked for: no row for the static part alone
	aggregate bool
}

func (p *selectPlan) columns() []Column {
	cols := make([]Column, len(p.out))
	for i, o := range p.out {
		cols[i] = o.result
	}
	return cols
}

func (b *binder) compileSelect(a *selection) *selectPlan {
	p := &selectPlan{selection: a, t: b.table}
	b.compileOutput(p)
	b.classify(p, b.compileWhere(a.where))
	b.compileOrder(p)
	p.perLimit = b.compileInt(a.perLimit, TypeInt, "[per_partition_limit]")
	p.limit = b.compileInt(a.limit, TypeInt, "[limit]")
	if p.perLimit != nil && (p.aggregate || p.distinct) {
		if p.distinct {
			panic(invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries"))
		}
		panic(invalid("PER PARTITION LIMIT is not allowed with aggregate queries."))
	}
	return p
}

const needsFiltering = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. " +
	"If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING"

// classify finds out what finds partitions, what finds rows, and what only
// filters them.
func (b *binder) classify(p *selectPlan, where []*restriction) {
	t := p.t
	byColumn := map[*column][]*restriction{}
	for _, r := range where {
		if r.token {
			p.tokens = append(p.tokens, r)
			continue
		}
		p.filters = append(p.filters, r)
		for _, c := range r.columns {
			for _, old := range byColumn[c] {
				contains := r.op == "contains" || r.op == "contains key" || old.op == "contains" || old.op == "contains key"
				if contains {
					continue
				}
				if !r.isSlice() || !old.isSlice() {
					panic(invalid("%s cannot be restricted by more than one relation if it includes an Equal", c.name))
				}
				if r.op[0] == old.op[0] {
					panic(invalid("More than one restriction was found for the %s bound on %s", map[byte]string{'<': "end", '>': "start"}[r.op[0]], c.name))
				}
			}
			byColumn[c] = append(byColumn[c], r)
			if c.kind == "regular" {
				p.rowsOnly = true
			}
			if c.kind == "clustering" {
				p.rowsOnly = true
			}
			if p.distinct && c.kind != "partition_key" && !c.isStatic() {
				panic(invalid("SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns."))
			}
			if c.kind == "clustering" && p.onlyStatics() {
				panic(invalid("Cannot restrict clustering columns when selecting only static columns"))
			}
		}
	}
	filtered := false
	p.pk = make([]*restriction, len(t.pk))
	restricted := 0
	p.keyed = true
	for i, c := range t.pk {
		list := byColumn[c]
		if len(list) > 0 {
			restricted++
		}
		if len(list) != 1 || list[0].op != "=" && list[0].op != "in" {
			p.keyed = false
			for _, r := range list {
				if r.isSlice() && !p.filtering {
					panic(invalid("Only EQ and IN relation are supported on the partition key (unless you use the token() function)"))
				}
			}
			continue
		}
		p.pk[i] = list[0]
	}
	if !p.keyed {
		filtered = restricted > 0
	}
	if p.keyed && len(p.tokens) > 0 {
		panic(unsupported("token() together with the partition key"))
	}
	filtered = b.classifyRows(p, byColumn) || filtered
	if filtered && !p.filtering && t.rows == nil {
		panic(invalid(needsFiltering))
	}
}

// classifyRows sorts the restrictions of clustering and other columns. It reports
// whether rows must be filtered.
func (b *binder) classifyRows(p *selectPlan, byColumn map[*column][]*restriction) (filtered bool) {
	t := p.t
	virtual := t.rows != nil
	gap, sliced := "", ""
	seen := map[*restriction]bool{}
	for _, c := range t.ck {
		list := byColumn[c]
		if len(list) == 0 {
			if gap == "" {
				gap = c.name
			}
			continue
		}
		for _, r := range list {
			if seen[r] {
				continue
			}
			seen[r] = true
			switch {
			case r.op == "contains" || r.op == "contains key":
				filtered = true
				continue
			case gap != "":
				if !p.filtering && !virtual {
					panic(invalid("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted", c.name, gap))
				}
				filtered = true
				continue
			case sliced != "" && sliced != c.name:
				if !p.filtering && !virtual {
					panic(invalid("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)", c.name, sliced))
				}
				filtered = true
				continue
			}
			if !p.keyed {
				filtered = true
			}
			if !r.mixedOrder() { // else it only filters
				p.ck = append(p.ck, r)
			}
		}
		for _, r := range list {
			if r.isSlice() && sliced == "" {
				sliced = r.columns[len(r.columns)-1].name
				if len(r.columns) > 1 {
					sliced = c.name
				}
			}
		}
	}
	for c := range byColumn {
		filtered = filtered || !c.isKey()
	}
	return filtered
}

// mixedOrder: a range of several columns that is no range in the table's order.
func (r *restriction) mixedOrder() bool {
	return r.isSlice() && slices.ContainsFunc(r.columns, func(c *column) bool { return c.desc != r.columns[0].desc })
}

// onlyStatics: static columns are selected, and none of a row's own.
func (p *selectPlan) onlyStatics() bool {
	found := false
	for _, c := range selected(p.out) {
		if !c.isStatic() && c.kind != "partition_key" {
			return false
		}
		found = found || c.isStatic()
	}
	return found
}

// selected lists the columns that outputs use.
func selected(list []*output) []*column {
	var out []*column
	for _, o := range list {
		if o.column != nil {
			out = append(out, o.column)
		}
		out = append(out, selected(o.args)...)
	}
	return out
}

func (b *binder) compileOrder(p *selectPlan) {
	if len(p.order) == 0 {
		return
	}
	if !p.keyed {
		panic(invalid("ORDER BY is only supported when the partition key is restricted by an EQ or an IN."))
	}
	var fixed []*column // restricted by =, so they may be left out
	for _, r := range p.ck {
		if r.op == "=" {
			fixed = append(fixed, r.columns...)
		}
	}
	at := 0
	var reverse []bool
	for _, o := range p.order {
		c := p.t.column(o.column)
		if c.kind != "clustering" {
			panic(invalid("Order by is currently only supported on the clustered columns of the PRIMARY KEY, got %s", c.name))
		}
		for at < c.pos && slices.Contains(fixed, p.t.ck[at]) {
			at++
		}
		if at != c.pos {
			panic(invalid("Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"))
		}
		at++
		reverse = append(reverse, o.desc != c.desc)
	}
	for _, r := range reverse {
		if r != reverse[0] {
			panic(invalid("Unsupported order by relation"))
		}
	}
	p.reverse = reverse[0]
	for _, r := range p.pk {
		p.postSort = p.postSort || r.op == "in"
	}
}
