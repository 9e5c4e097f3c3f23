package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"unicode/utf8"
)

var sizes = map[uint16]int{
	TypeBigint: 8, TypeBoolean: 1, TypeCounter: 8, TypeDouble: 8, TypeFloat: 4, TypeInt: 4, TypeTimestamp: 8, TypeUUID: 16,
	TypeTimeUUID: 16, TypeDate: 4, TypeTime: 8, TypeSmallint: 2, TypeTinyint: 1,
}

// allowsEmpty: zero bytes are a value of the type, by an old habit of the server.
func (t Type) allowsEmpty() bool {
	switch t.ID {
	case TypeSmallint, TypeTinyint, TypeDate, TypeTime, TypeList, TypeSet, TypeMap, TypeCounter, TypeDuration:
		return false
	}
	return true
}

// validate checks the bytes of a value. nil is fine.
func (t Type) validate(b []byte) *Error {
	if b == nil {
		return nil
	}
	if len(b) == 0 {
		if !t.allowsEmpty() {
			return invalid("Invalid empty value for type %s", t)
		}
		return nil
	}
	if n, ok := sizes[t.ID]; ok && len(b) != n {
		return invalid("Expected %d or 0 byte %s (%d)", n, t, len(b))
	}
	switch t.ID {
	case TypeASCII:
		for _, c := range b {
			if c >= 0x80 {
				return invalid("Invalid byte for ascii: %d", int8(c))
			}
		}
	case TypeText:
		if !utf8.Valid(b) {
			return invalid("String didn't validate.")
		}
	case TypeTimeUUID:
		if b[6]>>4 != 1 {
			return invalid("Invalid version for TimeUUID type.")
		}
	case TypeInet:
		if len(b) != 4 && len(b) != 16 {
			return invalid("unable to make inet address of %d bytes", len(b))
		}
	case TypeDecimal:
		if len(b) < 5 {
			return invalid("Expected 0 or at least 4 bytes for decimal, got %d", len(b))
		}
		if s := int32(binary.BigEndian.Uint32(b)); s > maxExponent || s < -maxExponent {
			return invalid("cqlfake takes decimals with a scale of at most %d", maxExponent)
		}
	case TypeTime:
		if n := int64(binary.BigEndian.Uint64(b)); n < 0 || n >= day {
			return invalid("%d is not a time of day in nanoseconds", n)
		}
	case TypeDuration:
		if vints(b) != 3 {
			return invalid("Expected a duration of 3 variable-length integers")
		}
	case TypeList, TypeSet, TypeMap, TypeTuple:
		return t.validateParts(b)
	}
	return nil
}

func (t Type) validateParts(b []byte) *Error {
	parts, ok := splitParts(t, b)
	if !ok {
		return invalid("Not enough or unexpected bytes to read a %s", t)
	}
	for i, p := range parts {
		elem := t.Elems[0]
		switch t.ID {
		case TypeTuple:
			elem = t.Elems[i]
		case TypeMap:
			elem = t.Elems[i%2]
		}
		if p == nil && t.ID != TypeTuple {
			return invalid("null is not supported inside collections")
		}
		if err := elem.validate(p); err != nil {
			return err
		}
	}
	return nil
}

// compare orders two values of the type as the server does. They must be valid,
// and not nil.
func (t Type) compare(a, b []byte) int {
	switch t.ID {
	case TypeText, TypeASCII, TypeBlob, TypeInet, TypeDate, TypeBoolean, TypeDuration, TypeCustom:
		return bytes.Compare(a, b)
	}
	if len(a) == 0 || len(b) == 0 {
		return len(a) - len(b)
	}
	switch t.ID {
	case TypeBigint, TypeCounter, TypeTimestamp, TypeTime, TypeInt, TypeSmallint, TypeTinyint:
		return cmp.Compare(signed(a), signed(b))
	case TypeDouble:
		return compareFloats(math.Float64frombits(binary.BigEndian.Uint64(a)), math.Float64frombits(binary.BigEndian.Uint64(b)))
	case TypeFloat:
		return compareFloats(float64(math.Float32frombits(binary.BigEndian.Uint32(a))), float64(math.Float32frombits(binary.BigEndian.Uint32(b))))
	case TypeVarint:
		return decodeVarint(a).Cmp(decodeVarint(b))
	case TypeDecimal:
		return compareDecimals(a, b)
	case TypeUUID, TypeTimeUUID:
		return compareUUIDs(a, b)
	case TypeList, TypeSet, TypeTuple, TypeMap:
		return t.compareParts(a, b)
	}
	return bytes.Compare(a, b)
}

func signed(b []byte) int64 {
	var n int64
	for i, c := range b {
		if i == 0 {
			n = int64(int8(c))
			continue
		}
		n = n<<8 | int64(c)
	}
	return n
}

// compareFloats: NaN is above all, and -0 below 0.
func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a != a || b != b:
		return btoi(a != a) - btoi(b != b)
	}
	return btoi(math.Signbit(b)) - btoi(math.Signbit(a))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareUUIDs: by version, those of version 1 by time, then by bytes.
func compareUUIDs(a, b []byte) int {
	if c := cmp.Compare(a[6]>>4, b[6]>>4); c != 0 {
		return c
	}
	if a[6]>>4 == 1 {
		if c := cmp.Compare(uuidTime(a), uuidTime(b)); c != 0 {
			return c
		}
		for i := 8; i < 16; i++ { // the rest as signed bytes, by an old mistake
			if c := cmp.Compare(int8(a[i]), int8(b[i])); c != 0 {
				return c
			}
		}
		return 0
	}
	return bytes.Compare(a, b)
}

// uuidTime is the time of a version 1 uuid: 100 ns since 1582.
func uuidTime(u []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(u[6:])&0x0fff)<<48 | uint64(binary.BigEndian.Uint16(u[4:]))<<32 | uint64(binary.BigEndian.Uint32(u))
}

func (t Type) compareParts(a, b []byte) int {
	x, okX := splitParts(t, a)
	y, okY := splitParts(t, b)
	if !okX || !okY {
		return bytes.Compare(a, b)
	}
	for i := range min(len(x), len(y)) {
		elem := t.Elems[0]
		switch t.ID {
		case TypeTuple:
			elem = t.Elems[i]
		case TypeMap:
			elem = t.Elems[i%2]
		}
		c := 0
		switch {
		case x[i] == nil || y[i] == nil:
			c = btoi(x[i] != nil) - btoi(y[i] != nil)
		default:
			c = elem.compare(x[i], y[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}
