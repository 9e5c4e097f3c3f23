// Package engine is the inside of cqlfake: it parses CQL, keeps keyspaces, tables
// and cells, and carries statements out as one Cassandra node with a replication
// factor of 1 would. It knows nothing of connections, frames or faults.
package engine

import "time"

// Column describes a column of a result, or a bind variable.
type Column struct {
	Keyspace, Table, Name string
	Type                  Type
}

// Type is a CQL type as the native protocol v4 names it: an option id, and the
// element types of a collection or tuple.
type Type struct {
	ID     uint16
	Custom string // class name of a custom type (id 0)
	Elems  []Type // list, set: one; map: key and value; tuple: all
	// Frozen: stored as one value. Not on the wire.
	Frozen bool
}

// Value is one bound value: nil Bytes with Unset false is null.
type Value struct {
	Name  string // of a named value; empty: by position
	Bytes []byte
	Unset bool
}

// Request is one statement, or one batch, to carry out.
type Request struct {
	Keyspace   string // of the connection; may be empty
	Statements []Bound
	Batch      bool
	Counter    bool // batch of counters
	Unlogged   bool
	// Serial is the serial consistency was given (native protocol code), 0: none.
	Consistency, Serial uint16
	// Now is the clock of the coordinator: TTLs, expiry and LWT timestamps use it.
	Now time.Time
	// Timestamp in microseconds that the client gave; nil: Now.
	Timestamp   *int64
	PageSize    int
	PagingState []byte
	User        string // who is logged in, for permission errors; empty: no authentication
}

// Bound is a statement with its values.
type Bound struct {
	Statement *Statement
	Values    []Value
}

// Statement is a parsed statement, checked against the schema when it was
// prepared; it notices when the schema has changed since.
type Statement struct {
	Text      string
	Variables []Column // bind variables in order
	PKIndexes []uint16 // positions of the partition key's variables, in key order
	Columns   []Column // of the result; nil when it returns none, or none that are known beforehand
	Keyspace  string   // of the table, for tracing and schema checks
	Table     string
	// Conditional: it carries a condition (IF …).
	Conditional bool

	impl any // the parser's and executor's own
}

// Kind is what a Result is; the numbers are those of the native protocol.
type Kind int32

const (
	Void         Kind = 1
	Rows         Kind = 2
	SetKeyspace  Kind = 3
	SchemaChange Kind = 5
)

// Result is what a request returns.
type Result struct {
	Kind        Kind
	Columns     []Column
	Rows        [][][]byte // nil: null
	PagingState []byte     // nil: that was the last page
	Keyspace    string     // SetKeyspace
	Change      Change     // SchemaChange
}

// Change is a change of the schema: CREATED, UPDATED or DROPPED; KEYSPACE, TABLE.
type Change struct {
	Change, Target, Keyspace, Name string
}

// Error is an error with its code in the native protocol (0x2200 invalid, 0x2000
// syntax, 0x2300 configuration, 0x2400 already exists, 0x2500 unprepared, …).
type Error struct {
	Code     int32
	Message  string
	Keyspace string // of already exists
	Table    string
}

func (e *Error) Error() string { return e.Message }
