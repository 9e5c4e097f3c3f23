package cqlfake

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// request is a frame as a client sends it.
func request(stream int16, op opcode, parts ...[]byte) []byte {
	b := appendHeader(nil, stream, op)
	b[0] = protocolVersion
	return finish(append(b, bytes.Join(parts, nil)...))
}

func TestReadFrame(t *testing.T) {
	read := func(b []byte) (frame, error) { return readFrame(bufio.NewReader(bytes.NewReader(b))) }
	f, err := read(request(7, opQuery, []byte("abc")))
	if err != nil || f.stream != 7 || f.op != opQuery || string(f.body) != "abc" {
		t.Fatalf("%+v, %v", f, err)
	}
	large := bytes.Repeat([]byte("x"), 300<<10)
	if f, err = read(request(1, opQuery, large)); err != nil || !bytes.Equal(f.body, large) {
		t.Fatalf("a large body: %d bytes, %v", len(f.body), err)
	}
	for _, version := range []byte{0, 1, 2, 3, 5, 6, 0x84, 0x85} {
		var v versionError
		if _, err := read([]byte{version}); !errors.As(err, &v) || v.version != version&^responseBit {
			t.Errorf("version %#x: %v", version, err)
		}
	}
	if _, err := read(nil); err != io.EOF {
		t.Errorf("the end between frames: %v", err)
	}
	for _, cut := range []int{1, 8, 9, 10} {
		if _, err := read(request(7, opQuery, []byte("abc"))[:cut]); err != io.ErrUnexpectedEOF && err != io.EOF {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
}

// A length that is only announced must not be believed.
func TestLengthIsNotBelieved(t *testing.T) {
	head := request(3, opQuery)
	binary.BigEndian.PutUint32(head[5:], maxFrame)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := readFrame(bufio.NewReader(bytes.NewReader(append(head, "few"...)))); err == nil {
				b.Fatal("no error")
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 1<<20 {
		t.Errorf("%d bytes allocated for a frame of which 3 came", allocated)
	}
}

func TestTooLong(t *testing.T) {
	long := request(3, opQuery, make([]byte, maxFrame+1))
	r := bufio.NewReader(bytes.NewReader(append(long, request(4, opOptions)...)))
	var e tooLong
	if _, err := readFrame(r); !errors.As(err, &e) || e.stream != 3 {
		t.Fatal(err)
	}
	if f, err := readFrame(r); err != nil || f.stream != 4 {
		t.Errorf("the frame after it: %+v, %v", f, err)
	}
}

func TestBodyOfLies(t *testing.T) {
	for name, read := range map[string]func(*body){
		"string":      func(r *body) { r.string() },
		"long string": func(r *body) { r.longString() },
		"bytes":       func(r *body) { r.bytes() },
		"string map":  func(r *body) { r.stringMap() },
		"string list": func(r *body) { r.stringList() },
		"values":      func(r *body) { r.values(true) },
		"params":      func(r *body) { r.params() },
		"batch":       func(r *body) { r.batch() },
		"payload":     func(r *body) { r.skipPayload() },
	} {
		for _, b := range [][]byte{nil, {0}, {0x7f, 0xff, 0xff, 0xff}, {1, 0xff, 0xff, 0}} {
			r := &body{b: b}
			if read(r); r.err == nil {
				t.Errorf("%s of % x: no error", name, b)
			}
		}
	}
	r := &body{b: []byte{0xff, 0xff, 0xff, 0xff}}
	if b := r.bytes(); b != nil || r.err != nil {
		t.Errorf("null: %v, %v", b, r.err)
	}
}

// The requests that a fuzzer starts from.
func seeds() [][]byte {
	query := append(appendInt(nil, 8), "SELECT 1"...)
	one := appendShort(nil, 1)
	values := append(append(append(one, withValues|withPageSize|withPagingState|withSerialConsistency|withTimestamp, 0, 2), appendBytes(nil, []byte("v"))...), appendInt(nil, -2)...)
	values = append(appendBytes(appendInt(values, 100), []byte("state")), 0, 8, 0, 0, 0, 0, 0, 0, 0, 1)
	named := append(append(append(one, withValues|withNames), 0, 1), appendBytes(appendString(nil, "name"), nil)...)
	entry := append(append([]byte{0}, query...), 0, 1)
	entry = appendBytes(entry, []byte("v"))
	return [][]byte{
		request(1, opOptions),
		request(1, opStartup, appendShort(nil, 1), appendString(appendString(nil, "CQL_VERSION"), "3.0.0")),
		request(1, opAuthResponse, appendBytes(nil, []byte("\x00user\x00password"))),
		request(1, opRegister, appendStringList(nil, []string{schemaEvent})),
		request(2, opQuery, query, one, []byte{0}),
		request(3, opQuery, query, values),
		request(3, opQuery, query, named),
		request(4, opPrepare, query),
		request(5, opExecute, appendString(nil, "0123456789abcdef"), values),
		request(6, opBatch, []byte{0, 0, 1}, entry, one, []byte{withTimestamp, 0, 0, 0, 0, 0, 0, 0, 1}),
	}
}
