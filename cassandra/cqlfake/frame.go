package cqlfake

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// What follows is the framing of the native protocol, version 4: all numbers are
// big-endian, and every length comes before what it measures.

const (
	protocolVersion = 4
	headerSize      = 9
	responseBit     = 0x80
	// maxFrame is native_transport_max_frame_size of the tested versions.
	maxFrame = 16 << 20
)

type opcode byte

const (
	opError         opcode = 0x00
	opStartup       opcode = 0x01
	opReady         opcode = 0x02
	opAuthenticate  opcode = 0x03
	opOptions       opcode = 0x05
	opSupported     opcode = 0x06
	opQuery         opcode = 0x07
	opResult        opcode = 0x08
	opPrepare       opcode = 0x09
	opExecute       opcode = 0x0a
	opRegister      opcode = 0x0b
	opEvent         opcode = 0x0c
	opBatch         opcode = 0x0d
	opAuthChallenge opcode = 0x0e
	opAuthResponse  opcode = 0x0f
	opAuthSuccess   opcode = 0x10
)

const (
	flagCompressed = 0x01
	flagPayload    = 0x04
)

// frame is one request as it came in.
type frame struct {
	version byte
	flags   byte
	stream  int16
	op      opcode
	body    []byte
}

// versionError ends a connection: nothing after such a header can be understood.
type versionError struct{ version byte }

func (e versionError) Error() string {
	return fmt.Sprintf("Invalid or unsupported protocol version (%d); supported versions are (%d/v%d)", e.version, protocolVersion, protocolVersion)
}

// tooLong is a frame beyond maxFrame; its body has been skipped.
type tooLong struct {
	stream int16
	length uint32
}

func (e tooLong) Error() string {
	return fmt.Sprintf("Request is too big: length %d exceeds maximum allowed length %d.", e.length, maxFrame)
}

// readFrame reads one frame. What it allocates grows with what has arrived, never
// with a length that was only announced.
func readFrame(r *bufio.Reader) (frame, error) {
	head, err := r.Peek(1)
	if err != nil {
		return frame{}, err
	}
	if head[0] != protocolVersion { // older headers are shorter: do not wait for the rest
		return frame{}, versionError{head[0] &^ responseBit}
	}
	if head, err = r.Peek(headerSize); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	f := frame{version: head[0], flags: head[1], stream: int16(binary.BigEndian.Uint16(head[2:])), op: opcode(head[4])}
	length := binary.BigEndian.Uint32(head[5:])
	_, _ = r.Discard(headerSize) // it was just peeked at
	if length > maxFrame {
		if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
			return frame{}, err
		}
		return frame{}, tooLong{f.stream, length}
	}
	if f.body, err = readBody(r, int(length)); err != nil {
		return frame{}, err
	}
	return f, nil
}

func readBody(r io.Reader, n int) ([]byte, error) {
	const trusted = 64 << 10
	if n <= trusted {
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return b, nil
	}
	var b bytes.Buffer
	if m, err := io.CopyN(&b, r, int64(n)); err != nil {
		if m > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b.Bytes(), nil
}

// appendHeader starts a response; finish fills in the length of its body.
func appendHeader(b []byte, stream int16, op opcode) []byte {
	b = append(b, protocolVersion|responseBit, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(stream))
	return append(b, byte(op), 0, 0, 0, 0)
}

// finish completes the frame that b is.
func finish(b []byte) []byte {
	binary.BigEndian.PutUint32(b[5:], uint32(len(b)-headerSize))
	return b
}

// errBody is the cause of every decoding that fails.
var errBody = errors.New("the body of the frame is shorter than its contents, or one of its lengths is wrong")

// body reads the parts of a frame's body. After the first fault everything reads
// as zero; err tells in the end. Bytes it returns share memory with the frame.
type body struct {
	b   []byte
	err error
}

func (r *body) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		if r.err == nil {
			r.err = errBody
		}
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *body) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *body) short() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *body) int() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *body) long() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *body) string() string     { return string(r.take(int(r.short()))) }
func (r *body) longString() string { return string(r.take(int(r.int()))) }
func (r *body) shortBytes() []byte { return r.take(int(r.short())) }

// bytes reads [bytes]: a negative length is null.
func (r *body) bytes() []byte {
	n := r.int()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}

// count reads the number of elements that follow, each at least size bytes long,
// so that a lie about it allocates nothing.
func (r *body) count(size int) int {
	n := int(r.short())
	if n*size > len(r.b) {
		r.err = errors.Join(r.err, errBody)
		return 0
	}
	return n
}

func (r *body) stringMap() map[string]string {
	m := map[string]string{}
	for range r.count(4) {
		k := r.string()
		m[k] = r.string()
	}
	return m
}

func (r *body) stringList() []string {
	var list []string
	for range r.count(2) {
		list = append(list, r.string())
	}
	return list
}

// skipPayload skips the [bytes map] before the body proper.
func (r *body) skipPayload() {
	for range r.count(6) {
		r.string()
		r.bytes()
	}
}

func appendShort(b []byte, v int) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendInt(b []byte, v int) []byte   { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendString(b []byte, s string) []byte {
	if len(s) > math.MaxUint16 {
		s = s[:math.MaxUint16]
	}
	return append(appendShort(b, len(s)), s...)
}

// appendBytes appends [bytes]; nil is null.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return appendInt(b, -1)
	}
	return append(appendInt(b, len(v)), v...)
}

func appendStringList(b []byte, list []string) []byte {
	b = appendShort(b, len(list))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}
