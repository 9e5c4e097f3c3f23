package cqlfake

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"
)

// conn is a client's connection to a node.
type conn struct {
	node *Node
	nc   net.Conn
	r    *bufio.Reader

	wmu sync.Mutex
	w   *bufio.Writer

	mu       sync.Mutex
	state    state
	user     string
	keyspace string
	schema   bool // wants schema events
	status   bool // wants to know of nodes that stop and start
}

// state of a connection: what it may send next.
type state uint8

const (
	fresh state = iota
	authenticating
	ready
)

// writeTimeout ends a connection whose client has stopped reading.
const writeTimeout = 10 * time.Second

// The kinds of events. Nodes do not come and go, so there is never one of topology.
const (
	schemaEvent   = "SCHEMA_CHANGE"
	statusEvent   = "STATUS_CHANGE"
	topologyEvent = "TOPOLOGY_CHANGE"
)

func newConn(n *Node, nc net.Conn) *conn {
	return &conn{node: n, nc: nc, r: bufio.NewReaderSize(nc, 16<<10), w: bufio.NewWriterSize(nc, 16<<10)}
}

func (c *conn) close() { _ = c.nc.Close() }

// wants reports whether the client has registered for an event.
func (c *conn) wants(event string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return event == schemaEvent && c.schema || event == statusEvent && c.status
}

// serve reads requests until the connection ends.
func (c *conn) serve() {
	defer c.node.forgetConn(c)
	defer c.close()
	for {
		f, err := readFrame(c.r)
		var version versionError
		var long tooLong
		switch {
		case errors.As(err, &version):
			// Stream 0, since where the stream is depends on the version.
			c.sendError(0, protocolError("%v", version), true)
			return
		case errors.As(err, &long):
			c.sendError(long.stream, &Error{Code: CodeInvalid, Message: long.Error()}, true)
			continue
		case err != nil:
			return
		}
		c.handle(f)
		if !c.frameBuffered() {
			c.flush()
		}
	}
}

// frameBuffered reports whether the next request is here already, so that its
// answer can leave together with the last one.
func (c *conn) frameBuffered() bool {
	if c.r.Buffered() < headerSize {
		return false
	}
	head, _ := c.r.Peek(headerSize)
	return c.r.Buffered()-headerSize >= int(binary.BigEndian.Uint32(head[5:]))
}

func (c *conn) send(b []byte, flush bool) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_ = c.nc.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.w.Write(b)
	if err == nil && flush {
		err = c.w.Flush()
	}
	if err != nil {
		c.close()
	}
}

func (c *conn) flush() {
	c.wmu.Lock()
	idle := c.w.Buffered() == 0
	c.wmu.Unlock()
	if !idle {
		c.send(nil, true)
	}
}

func (c *conn) sendError(stream int16, e *Error, flush bool) {
	c.send(finish(appendError(appendHeader(nil, stream, opError), e)), flush)
}

// handle starts one request. What waits for nothing is carried out here, in the
// order of arrival; all else gets a goroutine.
func (c *conn) handle(f frame) {
	j := &job{conn: c, stream: f.stream}
	if err := j.parse(f); err != nil {
		c.sendError(f.stream, err, false)
		return
	}
	cluster := c.node.cluster
	cluster.mu.Lock()
	faults := cluster.faults
	j.observe = cluster.observe
	cluster.mu.Unlock()
	if len(faults) > 0 || j.observe != nil {
		j.describe()
		j.fault = pick(faults, j.req)
	}
	if j.observe == nil && (j.fault == nil || j.fault.Delay <= 0 && j.fault.AnswerDelay <= 0) {
		j.run(false)
		return
	}
	cluster.spawn(func() { j.run(true) })
}
