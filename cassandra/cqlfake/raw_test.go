package cqlfake

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// raw is a client that knows nothing but frames.
type raw struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
}

func dialRaw(t testing.TB, c *Cluster) *raw {
	t.Helper()
	nc, err := c.DialContext(context.Background(), "tcp", c.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	return &raw{t, nc, bufio.NewReader(nc)}
}

func (c *raw) send(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

type response struct {
	stream int16
	op     opcode
	body   *body
}

func (c *raw) receive() response {
	c.t.Helper()
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(c.r, head); err != nil {
		c.t.Fatal(err)
	}
	if head[0] != protocolVersion|responseBit {
		c.t.Fatalf("version byte %#x", head[0])
	}
	b := make([]byte, binary.BigEndian.Uint32(head[5:]))
	if _, err := io.ReadFull(c.r, b); err != nil {
		c.t.Fatal(err)
	}
	return response{int16(binary.BigEndian.Uint16(head[2:])), opcode(head[4]), &body{b: b}}
}

// ask sends a request and returns its answer.
func (c *raw) ask(op opcode, parts ...[]byte) response {
	c.t.Helper()
	c.send(request(9, op, parts...))
	r := c.receive()
	if r.stream != 9 {
		c.t.Fatalf("answered on stream %d", r.stream)
	}
	return r
}

func (c *raw) startup() response {
	return c.ask(opStartup, appendShort(nil, 1), appendString(appendString(nil, "CQL_VERSION"), "3.0.0"))
}

// query sends a statement without values.
func (c *raw) query(text string) response {
	c.t.Helper()
	return c.ask(opQuery, append(appendInt(nil, len(text)), text...), []byte{0, 1, 0})
}

// isError checks the code and a part of the message, and leaves the rest.
func (r response) isError(t *testing.T, code Code, part string) {
	t.Helper()
	if r.op != opError {
		t.Fatalf("opcode %#x is no error", r.op)
	}
	got, message := Code(r.body.int()), r.body.string()
	if got != code || !strings.Contains(message, part) {
		t.Errorf("error %#x: %s; want %#x with %q", got, message, code, part)
	}
}

func TestHandshake(t *testing.T) {
	c := dialRaw(t, Start(t, Options{}))
	r := c.ask(opOptions)
	if r.op != opSupported {
		t.Fatalf("OPTIONS: opcode %#x", r.op)
	}
	supported := map[string][]string{}
	for range r.body.short() {
		k := r.body.string()
		supported[k] = r.body.stringList()
	}
	if r.body.err != nil || !slices.Equal(supported["PROTOCOL_VERSIONS"], []string{"4/v4"}) || len(supported["COMPRESSION"]) != 0 {
		t.Errorf("SUPPORTED: %v, %v", supported, r.body.err)
	}
	c.query("SELECT * FROM system.local").isError(t, CodeProtocol, "QUERY")
	c.ask(opStartup, appendShort(nil, 0)).isError(t, CodeProtocol, "CQL_VERSION")
	c.ask(opStartup, appendShort(nil, 2), appendString(appendString(nil, "CQL_VERSION"), "3.0.0"), appendString(appendString(nil, "COMPRESSION"), "lz4")).
		isError(t, CodeProtocol, "lz4")
	if r := c.startup(); r.op != opReady {
		t.Fatalf("STARTUP: opcode %#x", r.op)
	}
	c.startup().isError(t, CodeProtocol, "STARTUP")
	c.ask(opResult).isError(t, CodeProtocol, "opcode 8")
	c.ask(opQuery, []byte{0, 0, 1, 0}).isError(t, CodeProtocol, "shorter")
	c.ask(opRegister, appendStringList(nil, []string{"WEATHER"})).isError(t, CodeProtocol, "WEATHER")
	compressed := request(9, opOptions)
	compressed[1] = flagCompressed
	c.send(compressed)
	c.receive().isError(t, CodeProtocol, "compress")
	if r := c.ask(opOptions); r.op != opSupported {
		t.Errorf("after all these errors: opcode %#x", r.op)
	}
}

// Other versions get an error of version 4 on stream 0, and the connection ends.
func TestOtherVersions(t *testing.T) {
	cluster := Start(t, Options{})
	for _, version := range []byte{3, 5, 6, 0x84} {
		c := dialRaw(t, cluster)
		b := request(9, opOptions)
		b[0] = version
		c.send(b)
		r := c.receive()
		r.isError(t, CodeProtocol, "supported versions are (4/v4)")
		if _, err := c.r.ReadByte(); r.stream != 0 || err != io.EOF {
			t.Errorf("version %d: stream %d, then %v", version, r.stream, err)
		}
	}
}

func TestTooLongRequest(t *testing.T) {
	c := dialRaw(t, Start(t, Options{}))
	c.startup()
	c.ask(opQuery, make([]byte, maxFrame+1)).isError(t, CodeInvalid, "too big")
	if r := c.ask(opOptions); r.op != opSupported {
		t.Errorf("after it: opcode %#x", r.op)
	}
}

func TestLogin(t *testing.T) {
	c := dialRaw(t, Start(t, Options{Users: map[string]string{"ada": "secret"}}))
	login := func(token string) response { return c.ask(opAuthResponse, appendBytes(nil, []byte(token))) }
	if r := c.startup(); r.op != opAuthenticate || !strings.HasSuffix(r.body.string(), "PasswordAuthenticator") {
		t.Fatalf("STARTUP: opcode %#x", r.op)
	}
	c.query("SELECT * FROM system.local").isError(t, CodeProtocol, "AUTH_RESPONSE")
	login("\x00ada\x00guess").isError(t, CodeBadCredentials, "Provided username ada")
	login("\x00eve\x00secret").isError(t, CodeBadCredentials, "Provided username eve")
	login("secret").isError(t, CodeBadCredentials, "required")
	if r := login("\x00ada\x00secret"); r.op != opAuthSuccess {
		t.Fatalf("opcode %#x", r.op)
	}
	login("\x00ada\x00secret").isError(t, CodeProtocol, "AUTH_RESPONSE")
}

// Errors carry exactly the fields of their code.
func TestErrorBodies(t *testing.T) {
	for _, e := range []struct {
		err  Error
		want []byte
	}{
		{Error{Code: CodeUnavailable, Consistency: 8, Required: 2, Alive: 1}, []byte{0, 8, 0, 0, 0, 2, 0, 0, 0, 1}},
		{Error{Code: CodeOverloaded}, nil},
		{Error{Code: CodeWriteTimeout, Consistency: 4, Received: 1, Required: 2, WriteType: "CAS"}, []byte("\x00\x04\x00\x00\x00\x01\x00\x00\x00\x02\x00\x03CAS")},
		{Error{Code: CodeReadTimeout, Consistency: 4, Received: 1, Required: 2, DataPresent: true}, []byte{0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 1}},
		{Error{Code: CodeReadFailure, Consistency: 4, Received: 1, Required: 2, Failures: 3}, []byte{0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0}},
		{Error{Code: CodeWriteFailure, Consistency: 4, Received: 1, Required: 2, Failures: 3, WriteType: "CAS"}, []byte("\x00\x04\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x03CAS")},
		{Error{Code: CodeFunction, Keyspace: "k", Table: "f"}, []byte("\x00\x01k\x00\x01f\x00\x00")},
		{Error{Code: CodeAlreadyExists, Keyspace: "k", Table: "t"}, []byte("\x00\x01k\x00\x01t")},
		{Error{Code: CodeUnprepared, id: []byte("ab")}, []byte("\x00\x02ab")},
		{Error{Code: CodeInvalid, Keyspace: "k"}, nil},
	} {
		e.err.Message = "m"
		want := append(appendString(appendInt(nil, int(e.err.Code)), "m"), e.want...)
		if got := appendError(nil, &e.err); !bytes.Equal(got, want) {
			t.Errorf("%v\n got % x\nwant % x", &e.err, got, want)
		}
	}
}
