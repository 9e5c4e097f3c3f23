package engine

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Encode encodes a value as the native protocol v4 does; nil is null.
//
//   - text, ascii: string; blob: []byte; boolean: bool
//   - tinyint, smallint, int, bigint, counter, varint: any Go integer, *big.Int
//   - float, double: float32, float64; decimal: string
//   - uuid, timeuuid: [16]byte or its text
//   - timestamp: time.Time or milliseconds; date: time.Time; time: time.Duration
//   - inet: net.IP, netip.Addr or string; duration: string
//   - list, set: any slice; map: any map; tuple: []any
func Encode(t Type, v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	if b, ok := encodeKnown(t, v); ok {
		return b, nil
	}
	rv := reflect.ValueOf(v)
	switch t.ID {
	case TypeList, TypeSet, TypeTuple:
		if rv.Kind() == reflect.Slice {
			return encodeSlice(t, rv)
		}
	case TypeMap:
		if rv.Kind() == reflect.Map {
			return encodeMap(t, rv)
		}
	case TypeTinyint, TypeSmallint, TypeInt, TypeBigint, TypeCounter, TypeVarint, TypeTimestamp:
		n := new(big.Int)
		switch {
		case rv.CanInt():
			n.SetInt64(rv.Int())
		case rv.CanUint():
			n.SetUint64(rv.Uint())
		default:
			if big, ok := v.(*big.Int); ok {
				n = big
				break
			}
			return nil, fmt.Errorf("encoding a %T as %s is not possible", v, t)
		}
		if b, ok := encodeInteger(t, n); ok {
			return b, nil
		}
		return nil, fmt.Errorf("%s is out of the range of %s", n, t)
	}
	return nil, fmt.Errorf("encoding a %T as %s is not possible", v, t)
}

// encodeInteger returns false if n is out of t's range.
func encodeInteger(t Type, n *big.Int) ([]byte, bool) {
	size := map[uint16]int{TypeTinyint: 1, TypeSmallint: 2, TypeInt: 4, TypeBigint: 8, TypeCounter: 8, TypeTimestamp: 8}[t.ID]
	if size == 0 {
		return encodeVarint(n), true
	}
	if !n.IsInt64() {
		return nil, false
	}
	i := n.Int64()
	if shift := uint(64 - 8*size); i<<shift>>shift != i {
		return nil, false
	}
	return binary.BigEndian.AppendUint64(nil, uint64(i))[8-size:], true
}

func encodeKnown(t Type, v any) ([]byte, bool) {
	switch v := v.(type) {
	case string:
		switch t.ID {
		case TypeText, TypeASCII:
			return []byte(v), true
		case TypeUUID, TypeTimeUUID:
			return parseUUID(v)
		case TypeInet:
			return parseInet(v)
		case TypeDecimal:
			return parseDecimal(v)
		case TypeDuration:
			d, ok := parseDuration(v)
			return d.encode(), ok
		}
	case []byte:
		return v, t.ID == TypeBlob
	case bool:
		return encodeBool(v), t.ID == TypeBoolean
	case [16]byte:
		return v[:], t.ID == TypeUUID || t.ID == TypeTimeUUID
	case float64:
		return encodeFloat(t, v)
	case float32:
		return encodeFloat(t, float64(v))
	case net.IP:
		if ip4 := v.To4(); ip4 != nil {
			v = ip4
		}
		return v, t.ID == TypeInet
	case netip.Addr:
		return v.AsSlice(), t.ID == TypeInet
	case time.Duration:
		return binary.BigEndian.AppendUint64(nil, uint64(v)), t.ID == TypeTime
	case time.Time:
		switch t.ID {
		case TypeTimestamp:
			return binary.BigEndian.AppendUint64(nil, uint64(v.UnixMilli())), true
		case TypeDate:
			return encodeDays(floorDiv(v.Unix(), 86400)), true
		}
	}
	return nil, false
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func encodeDays(days int64) []byte { return binary.BigEndian.AppendUint32(nil, uint32(days+1<<31)) }

func encodeBool(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

func encodeFloat(t Type, v float64) ([]byte, bool) {
	switch t.ID {
	case TypeFloat:
		return binary.BigEndian.AppendUint32(nil, math.Float32bits(float32(v))), true
	case TypeDouble:
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(v)), true
	}
	return nil, false
}

func parseUUID(s string) ([]byte, bool) {
	if len(s) != 36 || !isUUID(s) {
		return nil, false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	return b, err == nil
}

func parseInet(s string) ([]byte, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return nil, false
	}
	return a.Unmap().AsSlice(), true
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.BigEndian.AppendUint32(b, math.MaxUint32)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

func encodeSlice(t Type, rv reflect.Value) ([]byte, error) {
	var parts [][]byte
	if t.ID == TypeTuple && rv.Len() != len(t.Elems) {
		return nil, fmt.Errorf("a tuple of %d values is not of %s", rv.Len(), t)
	}
	for i := range rv.Len() {
		elem := t.Elems[0]
		if t.ID == TypeTuple {
			elem = t.Elems[i]
		}
		b, err := Encode(elem, rv.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		parts = append(parts, b)
	}
	if t.ID == TypeSet {
		slices.SortFunc(parts, t.Elems[0].compare)
		parts = slices.CompactFunc(parts, slices.Equal)
	}
	return joinParts(t, parts), nil
}

func encodeMap(t Type, rv reflect.Value) ([]byte, error) {
	var pairs [][2][]byte
	for _, k := range rv.MapKeys() {
		kb, err := Encode(t.Elems[0], k.Interface())
		if err != nil {
			return nil, err
		}
		vb, err := Encode(t.Elems[1], rv.MapIndex(k).Interface())
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, [2][]byte{kb, vb})
	}
	slices.SortFunc(pairs, func(a, b [2][]byte) int { return t.Elems[0].compare(a[0], b[0]) })
	parts := make([][]byte, 0, 2*len(pairs))
	for _, p := range pairs {
		parts = append(parts, p[0], p[1])
	}
	return joinParts(t, parts), nil
}

// joinParts makes the bytes of a collection or tuple; a map has keys and values
// in turn.
func joinParts(t Type, parts [][]byte) []byte {
	var b []byte
	switch t.ID {
	case TypeTuple:
	case TypeMap:
		b = binary.BigEndian.AppendUint32(nil, uint32(len(parts)/2))
	default:
		b = binary.BigEndian.AppendUint32(nil, uint32(len(parts)))
	}
	for _, p := range parts {
		b = appendBytes(b, p)
	}
	return b
}

// splitParts is the inverse of joinParts; false if the bytes are no such value.
func splitParts(t Type, b []byte) ([][]byte, bool) {
	n := len(t.Elems)
	if t.ID != TypeTuple {
		if len(b) < 4 {
			return nil, false
		}
		count := int64(int32(binary.BigEndian.Uint32(b)))
		b = b[4:]
		if t.ID == TypeMap {
			count *= 2
		}
		if count < 0 || count*4 > int64(len(b)) {
			return nil, false
		}
		n = int(count)
	}
	parts := make([][]byte, 0, n)
	for range n {
		if t.ID == TypeTuple && len(b) == 0 {
			parts = append(parts, nil) // a shorter tuple ends in nulls
			continue
		}
		if len(b) < 4 {
			return nil, false
		}
		size := int64(int32(binary.BigEndian.Uint32(b)))
		b = b[4:]
		if size < 0 {
			parts = append(parts, nil)
			continue
		}
		if size > int64(len(b)) {
			return nil, false
		}
		parts = append(parts, b[:size:size])
		b = b[size:]
	}
	return parts, len(b) == 0
}
