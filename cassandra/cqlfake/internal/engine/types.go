package engine

import (
	"fmt"
	"strings"
)

// Option ids of types in the native protocol v4.
const (
	TypeCustom    uint16 = 0x00
	TypeASCII     uint16 = 0x01
	TypeBigint    uint16 = 0x02
	TypeBlob      uint16 = 0x03
	TypeBoolean   uint16 = 0x04
	TypeCounter   uint16 = 0x05
	TypeDecimal   uint16 = 0x06
	TypeDouble    uint16 = 0x07
	TypeFloat     uint16 = 0x08
	TypeInt       uint16 = 0x09
	TypeTimestamp uint16 = 0x0b
	TypeUUID      uint16 = 0x0c
	TypeText      uint16 = 0x0d
	TypeVarint    uint16 = 0x0e
	TypeTimeUUID  uint16 = 0x0f
	TypeInet      uint16 = 0x10
	TypeDate      uint16 = 0x11
	TypeTime      uint16 = 0x12
	TypeSmallint  uint16 = 0x13
	TypeTinyint   uint16 = 0x14
	TypeDuration  uint16 = 0x15
	TypeList      uint16 = 0x20
	TypeMap       uint16 = 0x21
	TypeSet       uint16 = 0x22
	TypeTuple     uint16 = 0x31
)

var typeNames = map[uint16]string{
	TypeASCII: "ascii", TypeBigint: "bigint", TypeBlob: "blob", TypeBoolean: "boolean", TypeCounter: "counter",
	TypeDecimal: "decimal", TypeDouble: "double", TypeFloat: "float", TypeInt: "int", TypeTimestamp: "timestamp",
	TypeUUID: "uuid", TypeText: "text", TypeVarint: "varint", TypeTimeUUID: "timeuuid", TypeInet: "inet",
	TypeDate: "date", TypeTime: "time", TypeSmallint: "smallint", TypeTinyint: "tinyint", TypeDuration: "duration",
}

var typeIDs = func() map[string]uint16 {
	m := map[string]uint16{"varchar": TypeText}
	for id, name := range typeNames {
		m[name] = id
	}
	return m
}()

// maxTypeDepth bounds the nesting of types and terms.
const maxTypeDepth = 32

func (t Type) isCollection() bool {
	return t.ID == TypeList || t.ID == TypeSet || t.ID == TypeMap
}

// isMulti: of many cells.
func (t Type) isMulti() bool { return t.isCollection() && !t.Frozen }

func (t Type) equal(u Type) bool {
	if t.ID != u.ID || t.Custom != u.Custom || len(t.Elems) != len(u.Elems) {
		return false
	}
	for i := range t.Elems {
		if !t.Elems[i].equal(u.Elems[i]) {
			return false
		}
	}
	return true
}

// freeze marks every collection in t as one value.
func (t Type) freeze() Type {
	t.Frozen = true
	if len(t.Elems) > 0 {
		elems := make([]Type, len(t.Elems))
		for i, e := range t.Elems {
			elems[i] = e.freeze()
		}
		t.Elems = elems
	}
	return t
}

// String writes a type as CQL does, and as system_schema.columns shows it.
func (t Type) String() string {
	var name string
	switch t.ID {
	case TypeCustom:
		return "'" + t.Custom + "'"
	case TypeList:
		name = "list"
	case TypeSet:
		name = "set"
	case TypeMap:
		name = "map"
	case TypeTuple:
		name = "tuple"
	default:
		if name, ok := typeNames[t.ID]; ok {
			return name
		}
		return fmt.Sprintf("type %#x", t.ID)
	}
	elems := make([]string, len(t.Elems))
	for i, e := range t.Elems {
		elems[i] = e.String()
	}
	name += "<" + strings.Join(elems, ", ") + ">"
	if t.Frozen || t.ID == TypeTuple {
		return "frozen<" + name + ">"
	}
	return name
}

// ParseType reads a type as CQL writes it: frozen<list<int>>, for example. The
// error is an *[Error].
func ParseType(cql string) (t Type, err error) {
	p, err := newParser(cql)
	if err != nil {
		return Type{}, err
	}
	defer p.rescue(&err)
	t = p.parseType(0)
	if !p.at(tokEOF) {
		p.fail("")
	}
	return t, nil
}
