package cqlfake

import (
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/cassandra/cqlfake/internal/engine"
)

// Flags of a query's parameters.
const (
	withValues            = 0x01
	skipMetadata          = 0x02
	withPageSize          = 0x04
	withPagingState       = 0x08
	withSerialConsistency = 0x10
	withTimestamp         = 0x20
	withNames             = 0x40
)

// params are what QUERY and EXECUTE carry besides the statement.
type params struct {
	consistency uint16
	serial      uint16
	values      []engine.Value
	skip        bool
	pageSize    int
	pagingState []byte
	timestamp   *int64
}

func (r *body) params() params {
	p := params{consistency: r.short()}
	flags := r.byte()
	if flags&withValues != 0 {
		p.values = r.values(flags&withNames != 0)
	}
	p.skip = flags&skipMetadata != 0
	if flags&withPageSize != 0 {
		p.pageSize = int(r.int())
	}
	if flags&withPagingState != 0 {
		p.pagingState = r.bytes()
	}
	p.tail(r, flags)
	return p
}

// tail reads what a batch has, too.
func (p *params) tail(r *body, flags byte) {
	if flags&withSerialConsistency != 0 {
		p.serial = r.short()
	}
	if flags&withTimestamp != 0 {
		t := r.long()
		p.timestamp = &t
	}
}

func (r *body) values(named bool) []engine.Value {
	size := 4
	if named {
		size = 6
	}
	list := make([]engine.Value, 0, r.count(size))
	for range cap(list) {
		var v engine.Value
		if named {
			v.Name = r.string()
		}
		switch n := r.int(); {
		case n == -2:
			v.Unset = true
		case n >= 0:
			v.Bytes = r.take(int(n))
		case n < -2 && r.err == nil:
			r.err = fmt.Errorf("a value has the length %d", n)
		}
		list = append(list, v)
	}
	return list
}

// entry is one statement of a batch: text, or the id of a prepared one.
type entry struct {
	text   string
	id     []byte
	values []engine.Value
}

// batch is a BATCH.
type batch struct {
	kind    byte // 0 logged, 1 unlogged, 2 counter
	entries []entry
	params
}

func (r *body) batch() batch {
	b := batch{kind: r.byte()}
	if b.kind > 2 && r.err == nil {
		r.err = fmt.Errorf("unknown batch type %d", b.kind)
	}
	b.entries = make([]entry, 0, r.count(5)) // kind, length, number of values
	for range cap(b.entries) {
		var e entry
		switch kind := r.byte(); kind {
		case 0:
			e.text = r.longString()
		case 1:
			e.id = r.shortBytes()
		default:
			if r.err == nil {
				r.err = fmt.Errorf("the kind of a batch's statement is %d, not 0 or 1", kind)
			}
		}
		e.values = r.values(false)
		b.entries = append(b.entries, e)
		if r.err != nil {
			return b
		}
	}
	b.consistency = r.short()
	flags := r.byte()
	if flags&withNames != 0 && r.err == nil {
		// The protocol has them, and no server understands them.
		r.err = errors.New("named values are not supported in a batch")
	}
	b.tail(r, flags)
	return b
}
