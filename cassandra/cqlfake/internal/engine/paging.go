package engine

import (
	"encoding/binary"
)

// cursor is the place of the last row that a page returned.
type cursor struct {
	partition *partition // nil: before the first
	row       *row       // nil: the partition is done
	rows      int64      // how many of the partition came
	left      int64      // of LIMIT
}

// cursorMagic begins every paging state of this engine.
const cursorMagic = "cqlfake1"

func (c cursor) encode() []byte {
	b := []byte(cursorMagic)
	b = binary.BigEndian.AppendUint64(b, uint64(c.rows))
	b = binary.BigEndian.AppendUint64(b, uint64(c.left))
	b = appendList(b, c.partition.values)
	if c.row == nil {
		return append(b, 0)
	}
	return appendList(append(b, 1), c.row.key)
}

func appendList(b []byte, list [][]byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(list)))
	for _, v := range list {
		b = appendBytes(b, v)
	}
	return b
}

// decodeCursor reads a paging state, which may be anything.
func decodeCursor(t *table, b []byte) cursor {
	wrong := invalid("Invalid value for the paging state")
	if len(b) < len(cursorMagic)+16 || string(b[:len(cursorMagic)]) != cursorMagic {
		panic(wrong)
	}
	b = b[len(cursorMagic):]
	c := cursor{rows: int64(binary.BigEndian.Uint64(b)), left: int64(binary.BigEndian.Uint64(b[8:]))}
	list := func(columns []*column) [][]byte {
		if len(b) < 2 || int(binary.BigEndian.Uint16(b)) != len(columns) {
			panic(wrong)
		}
		b = b[2:]
		var out [][]byte
		for _, col := range columns {
			if len(b) < 4 || uint64(len(b)) < 4+uint64(binary.BigEndian.Uint32(b)) {
				panic(wrong)
			}
			n := 4 + int(binary.BigEndian.Uint32(b))
			v := b[4:n:n]
			if col.typ.validate(v) != nil {
				panic(wrong)
			}
			out = append(out, v)
			b = b[n:]
		}
		return out
	}
	b = b[16:]
	values := list(t.pk)
	key := partitionKey(values)
	c.partition = &partition{key: key, values: values, token: token(key)}
	if len(b) < 1 {
		panic(wrong)
	}
	hasRow := b[0] == 1
	b = b[1:]
	if hasRow {
		c.row = newRow(list(t.ck))
	}
	return c
}
