package engine

import (
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"time"
)

var kindNames = map[termKind]string{
	termString: "STRING", termInteger: "INTEGER", termFloat: "FLOAT", termBoolean: "BOOLEAN", termUUID: "UUID", termHex: "HEX", termDuration: "DURATION",
}

// literal encodes a literal as a value of type t; what is for errors.
func literal(x *term, t Type, what string) []byte {
	wrong := func() {
		panic(invalid("Invalid %s constant (%.100s) for \"%s\" of type %s", kindNames[x.kind], x.text, what, t))
	}
	var b []byte
	ok := false
	switch x.kind {
	case termString:
		switch t.ID {
		case TypeText, TypeASCII:
			b, ok = []byte(x.text), true
		case TypeInet, TypeTimestamp, TypeDate, TypeTime:
			if b, ok = parseText(t, x.text); !ok {
				panic(invalid("Unable to parse '%.100s' as a %s (cqlfake resolves no names)", x.text, t))
			}
		}
	case termInteger:
		b, ok = integerLiteral(x.text, t, wrong)
	case termFloat:
		b, ok = floatLiteral(x.text, t)
	case termBoolean:
		b, ok = encodeBool(x.text == "true"), t.ID == TypeBoolean
	case termUUID:
		b, ok = parseUUID(x.text)
		ok = ok && (t.ID == TypeUUID || t.ID == TypeTimeUUID)
	case termHex:
		if t.ID == TypeBlob {
			var err error
			if b, err = hex.DecodeString(x.text); err != nil {
				panic(invalid("An hex string representing bytes must have an even length"))
			}
			ok = true
		}
	case termDuration:
		var d duration
		d, ok = parseDuration(x.text)
		b, ok = d.encode(), ok && t.ID == TypeDuration
	}
	if !ok {
		wrong()
	}
	if err := t.validate(b); err != nil {
		panic(err)
	}
	return b
}

func integerLiteral(text string, t Type, wrong func()) ([]byte, bool) {
	switch t.ID {
	case TypeTinyint, TypeSmallint, TypeInt, TypeBigint, TypeCounter, TypeVarint, TypeTimestamp:
		n, ok := new(big.Int).SetString(text, 10)
		if !ok {
			wrong()
		}
		b, ok := encodeInteger(t, n)
		if !ok {
			panic(invalid("Unable to make %s from '%.100s'", t, text))
		}
		return b, true
	case TypeDate:
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			panic(invalid("Unable to make unsigned int (for date) from: '%.100s'", text))
		}
		return binary.BigEndian.AppendUint32(nil, uint32(n)), true
	case TypeDecimal, TypeDouble, TypeFloat:
		return floatLiteral(text, t)
	}
	return nil, false
}

func floatLiteral(text string, t Type) ([]byte, bool) {
	switch t.ID {
	case TypeDouble, TypeFloat:
		bits := 64
		if t.ID == TypeFloat {
			bits = 32
		}
		f, err := strconv.ParseFloat(strings.Replace(text, "-nan", "nan", 1), bits)
		if err != nil && !strings.Contains(err.Error(), "range") {
			return nil, false
		}
		return encodeFloat(t, f)
	case TypeDecimal:
		return parseDecimal(text)
	}
	return nil, false
}

// parseText reads the types that literals write as strings.
func parseText(t Type, s string) ([]byte, bool) {
	switch t.ID {
	case TypeInet:
		return parseInet(s)
	case TypeTimestamp:
		ms, ok := parseTimestamp(s)
		return binary.BigEndian.AppendUint64(nil, uint64(ms)), ok
	case TypeDate:
		d, err := time.Parse("2006-01-02", s)
		if err != nil {
			return nil, false
		}
		return encodeDays(floorDiv(d.Unix(), 86400)), true
	case TypeTime:
		d, err := time.Parse("15:04:05", s)
		if err != nil {
			return nil, false
		}
		n := int64(d.Hour())*hour + int64(d.Minute())*hour/60 + int64(d.Second())*1e9 + int64(d.Nanosecond())
		return binary.BigEndian.AppendUint64(nil, uint64(n)), true
	}
	return nil, false
}

// parseTimestamp reads what the server reads; without a zone it is UTC here.
func parseTimestamp(s string) (ms int64, ok bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && !strings.Contains(strings.TrimLeft(s, "-"), "-") {
		return n, true
	}
	for _, day := range []string{"2006-01-02"} {
		for _, clock := range []string{"", " 15:04", "T15:04", " 15:04:05", "T15:04:05"} {
			for _, zone := range []string{"", "Z", "Z0700", "Z07:00", "Z07", " Z0700", " MST"} {
				if t, err := time.Parse(day+clock+zone, s); err == nil && (zone != " MST" || strings.HasSuffix(s, " UTC") || strings.HasSuffix(s, " GMT")) {
					return t.UnixMilli(), true
				}
			}
		}
	}
	return 0, false
}
