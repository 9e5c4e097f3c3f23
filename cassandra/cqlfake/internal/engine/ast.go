package engine

// What the parser makes of a text. Names are in lower case unless quoted.

type name struct{ keyspace, table string }

type termKind uint8

const (
	termNull termKind = iota
	termMarker
	termString
	termInteger
	termFloat
	termBoolean
	termUUID
	termHex
	termDuration
	termList  // […]
	termSet   // {…}; the empty one is a map too
	termMap   // {k: v, …}
	termTuple // (…)
	termCall  // function(…)
	termCast  // (type) term
)

// term is a value in a text.
type term struct {
	kind   termKind
	text   string // of a literal; name of a function
	marker int    // number of a bind variable
	elems  []*term
	keys   []*term // of a map
	cast   Type
}

// relation is one condition of a WHERE or IF.
type relation struct {
	columns []string // more than one: a tuple of clustering columns
	token   bool     // token(columns)
	isTuple bool     // (columns)
	element *term    // column[element], in IF
	op      string   // = != < <= > >= in contains "contains key" like "is not null"
	value   *term    // or, of IN, the marker for all
	list    []*term
	isList  bool // IN (…)
}

type opKind uint8

const (
	opSet      opKind = iota // c = v
	opAdd                    // c = c + v, c += v
	opSubtract               // c = c - v, c -= v
	opPrepend                // c = v + c
	opElement                // c[e] = v
	opDeleteColumn
	opDeleteElement
)

type operation struct {
	kind           opKind
	column         string
	element, value *term
}

type verb uint8

const (
	verbInsert verb = iota + 1
	verbUpdate
	verbDelete
)

func (v verb) String() string { return [...]string{"", "INSERT", "UPDATE", "DELETE"}[v] }

// modification is an INSERT, UPDATE or DELETE.
type modification struct {
	verb           verb
	table          name
	columns        []string // INSERT
	values         []*term
	ops            []operation // UPDATE, DELETE
	where          []relation
	timestamp, ttl *term
	ifExists       bool
	ifNotExists    bool
	conditions     []relation
}

func (m *modification) conditional() bool {
	return m.ifExists || m.ifNotExists || len(m.conditions) > 0
}

// selector is one thing that a SELECT returns.
type selector struct {
	column string // or
	call   string // function
	args   []*selector
	term   *term // a literal argument
	alias  string
	star   bool // count(*)
	text   string
}

type selection struct {
	table           name
	all             bool // *
	distinct        bool
	selectors       []*selector
	where           []relation
	order           []ordering
	limit, perLimit *term
	filtering       bool
}

type ordering struct {
	column string
	desc   bool
}

type batch struct {
	kind           string // "", unlogged, counter
	timestamp, ttl *term
	statements     []*modification
}

type useStatement struct{ keyspace string }

type truncate struct{ table name }

type property struct {
	key   string
	value any // string, or map[string]string
}

type createKeyspace struct {
	name        string
	ifNotExists bool
	alter       bool
	ifExists    bool
	properties  []property
}

type createTable struct {
	table       name
	ifNotExists bool
	columns     []ColumnDef // Kind: static or regular
	partition   []string
	clustering  []string
	desc        map[string]bool
	order       []string
	properties  []property
}

type alterTable struct {
	table       name
	ifExists    bool // of the table
	ifNotExists bool // of a column
	colIfExists bool
	add         []ColumnDef
	drop        []string
	rename      [][2]string
	properties  []property
}

type drop struct {
	keyspace string // or
	table    name
	isTable  bool
	ifExists bool
}
