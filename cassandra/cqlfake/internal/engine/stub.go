package engine

type keyspace struct{}

func (e *Engine) prepare(keyspace, text string) (*Statement, error) {
	return nil, &Error{Code: 0x2000, Message: "not yet"}
}
func (e *Engine) execute(r Request) (Result, error) {
	return Result{}, &Error{Code: 0x2000, Message: "not yet"}
}

// Schema returns a snapshot of the schema. Keep it no longer than needed: it is a
// copy.
func (e *Engine) Schema() Schema { return Schema{} }

// Define adds a table whose content is computed whenever it is read; it creates
// the keyspace if need be, and replaces a table of that name. rows returns maps by
// column name with values that [Encode] takes; a missing one is null. rows is
// called without the engine's lock: it may call Schema, and must be safe for
// concurrent use. Such a table cannot be written to, altered or dropped. Define
// panics on a column type that is none: that is a fault of the program.
func (e *Engine) Define(keyspace, table string, columns []ColumnDef, rows func() []map[string]any) {}

// Encode encodes a value as the native protocol v4 does; nil is null.
//
//   - text, ascii: string; blob: []byte; boolean: bool
//   - tinyint, smallint, int, bigint, counter, varint: any Go integer, *big.Int
//   - float, double: float32, float64; decimal: string
//   - uuid, timeuuid: [16]byte or its text
//   - timestamp: time.Time or milliseconds; date: time.Time; time: time.Duration
//   - inet: net.IP, netip.Addr or string; duration: string
//   - list, set: any slice; map: any map; tuple: []any
func Encode(t Type, v any) ([]byte, error) { return nil, nil }

// ParseType reads a type as CQL writes it: frozen<list<int>>, for example.
func ParseType(cql string) (Type, error) { return Type{}, nil }

// String writes a type as CQL does, and as system_schema.columns shows it.
func (t Type) String() string { return "" }
