package cqlfake

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// canned is a connection whose client has said everything, and listens.
type canned struct {
	io.Reader
	answers bytes.Buffer
}

func (c *canned) Write(p []byte) (int, error)      { return c.answers.Write(p) }
func (c *canned) Close() error                     { return nil }
func (c *canned) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *canned) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *canned) SetDeadline(time.Time) error      { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }

// FuzzFrame sends bytes to a node that is ready for statements. Whatever they are,
// it answers with whole frames, none of them the admission of a bug.
func FuzzFrame(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Add(bytes.Join(seeds(), nil))
	hello := request(1, opStartup, appendShort(nil, 1), appendString(appendString(nil, "CQL_VERSION"), "3.0.0"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		cluster := Start(t, Options{}) // a new one, so that a failure can be repeated
		nc := &canned{Reader: io.MultiReader(bytes.NewReader(hello), bytes.NewReader(sent))}
		newConn(cluster.Node(0), nc).serve()
		b := nc.answers.Bytes()
		frames := 0
		for ; len(b) > 0; frames++ {
			if len(b) < headerSize || b[0] != protocolVersion|responseBit {
				t.Fatalf("answer %d is no frame: % x", frames, b[:min(len(b), headerSize)])
			}
			n := int(binary.BigEndian.Uint32(b[5:]))
			if n > len(b)-headerSize {
				t.Fatalf("answer %d is cut off", frames)
			}
			if opcode(b[4]) == opError {
				r := &body{b: b[headerSize : headerSize+n]}
				if code, message := Code(r.int()), r.string(); code == CodeServer && strings.Contains(message, "bug") {
					t.Fatal(message)
				}
			}
			b = b[headerSize+n:]
		}
		if frames == 0 {
			t.Fatal("STARTUP was not answered")
		}
	})
}
