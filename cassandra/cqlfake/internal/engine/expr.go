package engine

import (
	"encoding/binary"
	"math/big"
	"slices"
	"strings"
	"time"
)

// expr is a term of a known type, ready to be evaluated.
type expr struct {
	typ    Type
	kind   termKind
	bytes  []byte // of a literal
	marker int
	call   string
	keys   []*expr
	elems  []*expr
}

// scope is what evaluation needs.
type scope struct {
	e    *Engine
	now  time.Time
	vals []Value
}

// seconds is the clock by which cells expire.
func (s *scope) seconds() int64 { return s.now.Unix() }

// binder collects the bind variables while a statement is compiled.
type binder struct {
	table     *table
	names     []string // given in the text
	variables []Column
	isBound   []bool
}

func newBinder(t *table, names []string) *binder {
	return &binder{table: t, names: names, variables: make([]Column, len(names)), isBound: make([]bool, len(names))}
}

func (b *binder) bind(i int, what string, t Type) {
	if b.names[i] != "" {
		what = b.names[i]
	}
	b.variables[i] = Column{Keyspace: b.table.keyspace, Table: b.table.name, Name: what, Type: t}
	b.isBound[i] = true
}

// compile gives a term its type; what names the receiver.
func (b *binder) compile(x *term, t Type, what string) *expr {
	e := &expr{typ: t, kind: x.kind}
	wrong := func(kind string) {
		panic(invalid("Invalid %s literal for %s of type %s", kind, what, t))
	}
	switch x.kind {
	case termNull:
	case termMarker:
		e.marker = x.marker
		b.bind(x.marker, what, t)
	case termList:
		if t.ID != TypeList {
			wrong("list")
		}
		b.compileElems(e, x, what)
	case termSet:
		switch {
		case t.ID == TypeMap && len(x.elems) == 0:
			e.kind = termMap
		case t.ID != TypeSet:
			wrong("set")
		default:
			b.compileElems(e, x, what)
		}
	case termMap:
		if t.ID != TypeMap {
			wrong("map")
		}
		for i := range x.keys {
			e.keys = append(e.keys, b.compile(x.keys[i], t.Elems[0], "key("+what+")"))
			e.elems = append(e.elems, b.compile(x.elems[i], t.Elems[1], "value("+what+")"))
		}
	case termTuple:
		switch {
		case t.ID == TypeTuple && len(x.elems) <= len(t.Elems):
			for i := range x.elems {
				e.elems = append(e.elems, b.compile(x.elems[i], t.Elems[i], what))
			}
		case len(x.elems) == 1:
			return b.compile(x.elems[0], t, what)
		default:
			wrong("tuple")
		}
	case termCast:
		if !x.cast.equal(t) {
			panic(invalid("Cannot assign value of type %s to %s of type %s", x.cast, what, t))
		}
		return b.compile(x.elems[0], t, what)
	case termCall:
		b.compileCall(e, x, what)
	default:
		e.bytes = literal(x, t, what)
	}
	return e
}

func (b *binder) compileElems(e *expr, x *term, what string) {
	for _, elem := range x.elems {
		e.elems = append(e.elems, b.compile(elem, e.typ.Elems[0], "value("+what+")"))
	}
}

// functions that take nothing, and one argument, by what they return.
var nullary = map[string]uint16{
	"now": TypeTimeUUID, "currenttimeuuid": TypeTimeUUID, "current_timeuuid": TypeTimeUUID, "uuid": TypeUUID,
	"currenttimestamp": TypeTimestamp, "current_timestamp": TypeTimestamp, "currentdate": TypeDate, "current_date": TypeDate,
	"currenttime": TypeTime, "current_time": TypeTime,
}

var unary = map[string]uint16{
	"totimestamp": TypeTimestamp, "to_timestamp": TypeTimestamp, "dateof": TypeTimestamp, "tounixtimestamp": TypeBigint,
	"to_unix_timestamp": TypeBigint, "unixtimestampof": TypeBigint, "todate": TypeDate, "to_date": TypeDate,
	"mintimeuuid": TypeTimeUUID, "min_timeuuid": TypeTimeUUID, "maxtimeuuid": TypeTimeUUID, "max_timeuuid": TypeTimeUUID,
}

func (b *binder) compileCall(e *expr, x *term, what string) {
	var result uint16
	switch {
	case x.text == "token" && e.typ.ID == TypeBigint:
		if len(x.elems) != len(b.table.pk) {
			panic(invalid("Invalid number of arguments in call to function system.token: %d required but %d provided", len(b.table.pk), len(x.elems)))
		}
		for i, c := range b.table.pk {
			e.elems = append(e.elems, b.compile(x.elems[i], c.typ, "arg"+string(rune('0'+i%10))+"(system.token)"))
		}
		result = TypeBigint
	case nullary[x.text] != 0 && len(x.elems) == 0:
		result = nullary[x.text]
	case unary[x.text] != 0 && len(x.elems) == 1:
		result = unary[x.text]
		arg := Type{ID: TypeTimeUUID}
		if strings.HasPrefix(x.text, "m") {
			arg.ID = TypeTimestamp
		}
		if in := x.elems[0]; in.kind == termCall {
			if id := nullary[in.text]; id == TypeTimestamp || id == TypeDate {
				arg.ID = id
			} else if id := unary[in.text]; id == TypeTimestamp || id == TypeDate {
				arg.ID = id
			}
		}
		e.elems = append(e.elems, b.compile(x.elems[0], arg, what))
	default:
		panic(invalid("Unknown function '%.60s', or one that cqlfake does not support with these arguments", x.text))
	}
	if result != e.typ.ID && !(result == TypeTimeUUID && e.typ.ID == TypeUUID) {
		panic(invalid("Type error: cannot assign result of function system.%s (type %s) to %s (type %s)", x.text, Type{ID: result}, what, e.typ))
	}
	e.call = x.text
}

// eval returns the value; unset is true for a marker that was left unset.
func (e *expr) eval(s *scope) (b []byte, unset bool) {
	switch e.kind {
	case termNull:
		return nil, false
	case termMarker:
		v := s.vals[e.marker]
		if v.Unset {
			return nil, true
		}
		if err := e.typ.validate(v.Bytes); err != nil {
			panic(err)
		}
		return v.Bytes, false
	case termList, termSet, termMap, termTuple:
		return e.evalParts(s), false
	case termCall:
		return e.evalCall(s), false
	}
	return e.bytes, false
}

func (e *expr) evalParts(s *scope) []byte {
	var parts [][]byte
	one := func(x *expr) []byte {
		b, unset := x.eval(s)
		switch {
		case unset:
			panic(invalid("unset value is not supported inside collections"))
		case b == nil && e.typ.ID != TypeTuple:
			panic(invalid("null is not supported inside collections"))
		}
		return b
	}
	switch e.typ.ID {
	case TypeMap:
		type pair struct{ k, v []byte }
		var pairs []pair
		for i := range e.keys {
			pairs = append(pairs, pair{one(e.keys[i]), one(e.elems[i])})
		}
		byKey := func(a, b pair) int { return e.typ.Elems[0].compare(a.k, b.k) }
		slices.Reverse(pairs) // the last of equal keys wins
		slices.SortStableFunc(pairs, byKey)
		pairs = slices.CompactFunc(pairs, func(a, b pair) bool { return byKey(a, b) == 0 })
		for _, p := range pairs {
			parts = append(parts, p.k, p.v)
		}
	default:
		for _, x := range e.elems {
			parts = append(parts, one(x))
		}
	}
	if e.typ.ID == TypeSet {
		slices.SortFunc(parts, e.typ.Elems[0].compare)
		parts = slices.CompactFunc(parts, func(a, b []byte) bool { return e.typ.Elems[0].compare(a, b) == 0 })
	}
	return joinParts(e.typ, parts)
}

func (e *expr) evalCall(s *scope) []byte {
	if e.call == "token" {
		var values [][]byte
		for _, x := range e.elems {
			b, _ := x.eval(s)
			if b == nil {
				panic(invalid("Invalid null value in token()"))
			}
			values = append(values, b)
		}
		return binary.BigEndian.AppendUint64(nil, uint64(token(partitionKey(values))))
	}
	var arg []byte
	var argType Type
	if len(e.elems) == 1 {
		arg, _ = e.elems[0].eval(s)
		argType = e.elems[0].typ
		if arg == nil {
			return nil
		}
	}
	return callFunction(s, e.call, argType, arg)
}

// callFunction computes the functions of nullary and unary.
func callFunction(s *scope, name string, t Type, arg []byte) []byte {
	be := binary.BigEndian
	switch name {
	case "now", "currenttimeuuid", "current_timeuuid":
		return s.e.timeUUID(s.now)
	case "uuid":
		u := s.e.opts.NewUUID()
		return u[:]
	case "currenttimestamp", "current_timestamp":
		return be.AppendUint64(nil, uint64(s.now.UnixMilli()))
	case "currentdate", "current_date":
		return encodeDays(floorDiv(s.now.Unix(), 86400))
	case "currenttime", "current_time":
		return be.AppendUint64(nil, uint64(s.now.UnixNano()-floorDiv(s.now.UnixNano(), day)*day))
	}
	if len(arg) == 0 {
		return nil
	}
	var ms int64
	switch t.ID {
	case TypeTimeUUID, TypeUUID:
		ms = (int64(uuidTime(arg)) - uuidEpoch) / 10_000
	case TypeTimestamp:
		ms = signed(arg)
	case TypeDate:
		ms = (int64(be.Uint32(arg)) - 1<<31) * 86_400_000
	}
	switch unary[name] {
	case TypeDate:
		return encodeDays(floorDiv(ms, 86_400_000))
	case TypeTimeUUID:
		ticks, low := ms*10_000+uuidEpoch, uint64(0x8080808080808080)
		if strings.HasPrefix(name, "max") {
			ticks, low = ticks+9999, 0x7f7f7f7f7f7f7f7f
		}
		return be.AppendUint64(timeBits(uint64(ticks)), low)
	}
	return be.AppendUint64(nil, uint64(ms))
}

// uuidEpoch is 1970 in the ticks of time uuids, 100 ns since 1582.
const uuidEpoch = 0x01B21DD213814000

func timeBits(ticks uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(ticks))
	b = binary.BigEndian.AppendUint16(b, uint16(ticks>>32))
	return binary.BigEndian.AppendUint16(b, uint16(ticks>>48)&0x0fff|0x1000)
}

// timeUUID makes a new one: of now, or the next after the last.
func (e *Engine) timeUUID(now time.Time) []byte {
	e.clock = max(e.clock+1, uint64(now.UnixMicro()*10+uuidEpoch))
	return binary.BigEndian.AppendUint64(timeBits(e.clock), 0x80c0_ffee_c0ff_ee01)
}

// evalInt evaluates a LIMIT, TTL or TIMESTAMP.
func (e *expr) evalInt(s *scope) (n int64, ok bool) {
	if e == nil {
		return 0, false
	}
	b, unset := e.eval(s)
	if unset {
		return 0, false
	}
	if len(b) == 0 {
		panic(invalid("Invalid null value"))
	}
	return signed(b), true
}

// compileInt compiles a LIMIT, TTL or TIMESTAMP.
func (b *binder) compileInt(x *term, id uint16, what string) *expr {
	if x == nil {
		return nil
	}
	if x.kind == termInteger {
		n, _ := new(big.Int).SetString(x.text, 10)
		if enc, ok := encodeInteger(Type{ID: id}, n); ok {
			return &expr{typ: Type{ID: id}, kind: termInteger, bytes: enc}
		}
		panic(invalid("Unable to make %s from '%.40s'", Type{ID: id}, x.text))
	}
	return b.compile(x, Type{ID: id}, what)
}
