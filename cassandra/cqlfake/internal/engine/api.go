package engine

import (
	"crypto/rand"
	"sync"
	"time"
)

// Options configure an [Engine].
type Options struct {
	// NewUUID makes the ids of tables and schema versions, and the values of uuid();
	// nil: random ones.
	NewUUID func() [16]byte
}

// Engine keeps the data and carries out statements. It is safe for concurrent
// use; requests are carried out one at a time, each of them atomically.
type Engine struct {
	opts Options

	mu      sync.Mutex
	spaces  map[string]*keyspace
	version [16]byte // of the schema
	clock   uint64   // makes time uuids of one instant differ
}

// New returns an engine without any keyspace.
func New(opts Options) *Engine {
	if opts.NewUUID == nil {
		opts.NewUUID = randomUUID
	}
	e := &Engine{opts: opts, spaces: map[string]*keyspace{}}
	e.version = opts.NewUUID()
	return e
}

func randomUUID() [16]byte {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// Prepare parses a statement and checks it against the schema. An unqualified
// table is one of keyspace, which may be empty. The error is an *[Error].
func (e *Engine) Prepare(keyspace, text string) (*Statement, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.prepare(keyspace, text)
}

// Execute carries out a request: all of it or nothing. The error is an *[Error].
func (e *Engine) Execute(r Request) (Result, error) {
	if r.Now.IsZero() {
		r.Now = time.Now()
	}
	if sel := r.virtual(); sel != nil {
		return e.executeVirtual(r, sel)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.execute(r)
}

// ColumnDef is a column of a table.
type ColumnDef struct {
	Name string
	Type Type   // or CQL
	CQL  string // the type as CQL writes it; [Engine.Define] takes either
	// Kind is partition_key, clustering, static or regular (also: empty).
	Kind string
	// Position in the partition key or the clustering, -1 for others. Define
	// ignores it: there the order counts.
	Position int
	// Desc: clustering in descending order.
	Desc bool
}

// Keyspace is a keyspace of the schema.
type Keyspace struct {
	Name        string
	Durable     bool
	Replication map[string]string
	Virtual     bool // every table of it comes from Define
	Tables      []Table
}

// Table is a table of the schema.
type Table struct {
	Keyspace, Name string
	ID             [16]byte
	Columns        []ColumnDef // in the order of SELECT *
	// Options by the names of system_schema.tables, every one of them, as values
	// that [Encode] takes for the columns there: string, int32, float64,
	// map[string]string.
	Options map[string]any
	Virtual bool // it comes from Define
}

// Schema is all of it, by name.
type Schema struct {
	Version   [16]byte // changes with every change
	Keyspaces []Keyspace
}
