package cqlfake

import "github.com/tenure-go/tenure/cassandra/cqlfake/internal/engine"

// Flags of result metadata.
const (
	globalTable  = 0x01
	hasMorePages = 0x02
	noMetadata   = 0x04
)

// resultPrepared is the one kind of result that the engine knows nothing of.
const resultPrepared = 4

// appendResult appends the body of a RESULT. With skip the columns of rows are
// only counted: the client knows them from preparing.
func appendResult(b []byte, r engine.Result, skip bool) []byte {
	b = appendInt(b, int(r.Kind))
	switch r.Kind {
	case engine.SetKeyspace:
		return appendString(b, r.Keyspace)
	case engine.SchemaChange:
		return appendChange(b, r.Change)
	case engine.Rows:
		b = appendMetadata(b, r.Columns, r.PagingState, skip)
		b = appendInt(b, len(r.Rows))
		for _, row := range r.Rows {
			for _, cell := range row {
				b = appendBytes(b, cell)
			}
		}
	}
	return b
}

func appendMetadata(b []byte, columns []engine.Column, pagingState []byte, skip bool) []byte {
	flags := 0
	global := oneTable(columns)
	if global {
		flags |= globalTable
	}
	if pagingState != nil {
		flags |= hasMorePages
	}
	if skip {
		flags |= noMetadata
	}
	b = appendInt(appendInt(b, flags), len(columns))
	if pagingState != nil {
		b = appendBytes(b, pagingState)
	}
	if !skip {
		b = appendColumns(b, columns, global)
	}
	return b
}

func oneTable(columns []engine.Column) bool {
	for _, c := range columns {
		if c.Keyspace != columns[0].Keyspace || c.Table != columns[0].Table {
			return false
		}
	}
	return len(columns) > 0
}

func appendColumns(b []byte, columns []engine.Column, global bool) []byte {
	if global {
		b = appendString(appendString(b, columns[0].Keyspace), columns[0].Table)
	}
	for _, c := range columns {
		if !global {
			b = appendString(appendString(b, c.Keyspace), c.Table)
		}
		b = appendType(appendString(b, c.Name), c.Type)
	}
	return b
}

// appendType appends an option: the id, and what it needs to be understood.
func appendType(b []byte, t engine.Type) []byte {
	const custom, tuple = 0x00, 0x31
	b = appendShort(b, int(t.ID))
	switch t.ID {
	case custom:
		b = appendString(b, t.Custom)
	case tuple:
		b = appendShort(b, len(t.Elems))
	}
	for _, e := range t.Elems {
		b = appendType(b, e)
	}
	return b
}

// appendPrepared appends the body of the answer to PREPARE.
func appendPrepared(b, id []byte, s *engine.Statement) []byte {
	b = appendInt(b, resultPrepared)
	b = append(appendShort(b, len(id)), id...)
	global := oneTable(s.Variables)
	flags := 0
	if global {
		flags = globalTable
	}
	b = appendInt(appendInt(b, flags), len(s.Variables))
	b = appendInt(b, len(s.PKIndexes))
	for _, i := range s.PKIndexes {
		b = appendShort(b, int(i))
	}
	b = appendColumns(b, s.Variables, global)
	if s.Columns == nil { // as for a statement without a result
		return appendInt(appendInt(b, noMetadata), 0)
	}
	return appendMetadata(b, s.Columns, nil, false)
}

// appendChange appends a schema change, as a result and an event carry it.
func appendChange(b []byte, c engine.Change) []byte {
	b = appendString(appendString(appendString(b, c.Change), c.Target), c.Keyspace)
	if c.Target != "KEYSPACE" {
		b = appendString(b, c.Name)
	}
	return b
}
