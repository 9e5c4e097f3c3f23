package cqlfake

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake/internal/engine"
)

// Node is one coordinator of a [Cluster]. It has a clock of its own, and its
// own memory of prepared statements; the data is the cluster's.
type Node struct {
	cluster  *Cluster
	index    int
	addr     *net.TCPAddr
	id       [16]byte
	listener net.Listener // nil: in memory
	dialled  atomic.Int32
	offset   atomic.Int64 // of the clock, in nanoseconds

	mu       sync.Mutex
	stopped  bool
	conns    map[*conn]struct{}
	prepared map[string]*engine.Statement // by id
	size     int                          // of prepared, in bytes or so
}

func newNode(c *Cluster, i int, a *net.TCPAddr) *Node {
	n := &Node{cluster: c, index: i, addr: a, conns: map[*conn]struct{}{}, prepared: map[string]*engine.Statement{}}
	n.id = md5.Sum([]byte("cqlfake node " + a.IP.String()))
	n.id[6], n.id[8] = n.id[6]&0x0f|0x30, n.id[8]&0x3f|0x80 // as version 3 ids are
	return n
}

// Address returns the node's address and port.
func (n *Node) Address() string { return n.addr.String() }

// HostID returns the node's id, as gocql's HostInfo.HostID shows it.
func (n *Node) HostID() string {
	s := hex.EncodeToString(n.id[:])
	return fmt.Sprintf("%s-%s-%s-%s-%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:])
}

// DataCenter returns the node's data centre.
func (n *Node) DataCenter() string {
	dcs := n.cluster.opts.DataCenters
	return dcs[n.index%len(dcs)]
}

// Now is the time by the node's clock, which decides what has expired in the
// requests that it coordinates.
func (n *Node) Now() time.Time {
	return n.cluster.opts.Now().Add(time.Duration(n.offset.Load()))
}

// Advance moves the node's clock, for good: d is added to what it shows, and may
// be negative. Other nodes do not notice.
func (n *Node) Advance(d time.Duration) { n.offset.Add(int64(d)) }

// Configure is [Cluster.Configure] for sessions that know this node only, so that
// it coordinates all their requests.
func (n *Node) Configure(cfg *gocql.ClusterConfig) {
	n.cluster.Configure(cfg)
	cfg.Hosts = []string{n.addr.IP.String()}
	cfg.HostFilter = gocql.HostFilterFunc(func(h *gocql.HostInfo) bool { return h.ConnectAddress().Equal(n.addr.IP) })
}

// Forget drops the node's prepared statements, as a restart would. Drivers then
// get the error "unprepared" and prepare them again.
func (n *Node) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.prepared)
	n.size = 0
}

// Disconnect ends all connections to the node. New ones are accepted.
func (n *Node) Disconnect() {
	for _, c := range n.connections() {
		c.close()
	}
}

// Stop ends all connections to the node and lets no new one in, as if it were
// down; over TCP they are closed as soon as they are made. The other nodes go on to
// list it as their peer, and tell the clients that want to know. Start undoes it.
func (n *Node) Stop() {
	n.setStopped(true)
	n.Disconnect()
	n.tellStatus("DOWN")
}

// Start undoes Stop.
func (n *Node) Start() {
	n.setStopped(false)
	n.tellStatus("UP")
}

func (n *Node) setStopped(stopped bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = stopped
}

// tellStatus sends the clients of all nodes an event about this one.
func (n *Node) tellStatus(change string) {
	ip := n.addr.IP.To4()
	if ip == nil {
		ip = n.addr.IP
	}
	b := append(appendString(nil, change), byte(len(ip)))
	n.cluster.tell(statusEvent, appendInt(append(b, ip...), n.addr.Port))
}

// tell sends an event to the clients that have registered for it.
func (c *Cluster) tell(event string, contents []byte) {
	b := finish(append(appendString(appendHeader(nil, -1, opEvent), event), contents...))
	for _, n := range c.nodes {
		for _, conn := range n.connections() {
			if conn.wants(event) {
				conn.send(b, true)
			}
		}
	}
}

// Connections returns how many clients' connections the node has.
func (n *Node) Connections() int { return len(n.connections()) }

// token returns the one token of the node: the ring is cut into equal parts.
func (n *Node) token() string {
	t := new(big.Int).Lsh(big.NewInt(int64(n.index)), 64)
	t.Div(t, big.NewInt(int64(len(n.cluster.nodes))))
	return t.Sub(t, new(big.Int).Lsh(big.NewInt(1), 63)).String()
}

func (n *Node) connections() []*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []*conn
	for c := range n.conns {
		list = append(list, c)
	}
	return list
}

func (n *Node) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			if n.cluster.sleep(10 * time.Millisecond) { // out of file descriptors, perhaps
				continue
			}
			return
		}
		n.open(nc)
	}
}

// open serves a connection, or closes it and returns false.
func (n *Node) open(nc net.Conn) bool {
	c := newConn(n, nc)
	n.mu.Lock()
	stopped := n.stopped
	if !stopped {
		n.conns[c] = struct{}{}
	}
	n.mu.Unlock()
	if stopped || !n.cluster.spawn(c.serve) {
		c.close()
		return false
	}
	return true
}

func (n *Node) forgetConn(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// shut closes the listener and all connections, once the cluster is closed.
func (n *Node) shut() {
	if n.listener != nil {
		_ = n.listener.Close()
	}
	n.Disconnect()
}

// maxPrepared bounds the memory of prepared statements, in bytes, as a server does.
const maxPrepared = 10 << 20

// weight is what a prepared statement counts for.
func weight(text string) int { return len(text) + 1<<10 }

// prepare returns the id of a statement, which depends on its keyspace and text.
func (n *Node) prepare(keyspace, text string) ([]byte, *engine.Statement, error) {
	id := md5.Sum([]byte(keyspace + text))
	n.mu.Lock()
	s := n.prepared[string(id[:])]
	n.mu.Unlock()
	if s != nil {
		return id[:], s, nil
	}
	if weight(text) > maxPrepared {
		return nil, nil, &Error{Code: CodeInvalid, Message: fmt.Sprintf("Prepared statement of size %d bytes is larger than allowed maximum of %d MB", len(text), maxPrepared>>20)}
	}
	s, err := n.cluster.engine.Prepare(keyspace, text)
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(string(id[:])) // somebody else was as quick
	for old := range n.prepared {
		if n.size+weight(text) <= maxPrepared {
			break
		}
		n.drop(old)
	}
	n.prepared[string(id[:])] = s
	n.size += weight(text)
	return id[:], s, nil
}

// drop forgets one prepared statement, with n.mu held.
func (n *Node) drop(id string) {
	if s := n.prepared[id]; s != nil {
		n.size -= weight(s.Text)
		delete(n.prepared, id)
	}
}

func (n *Node) find(id []byte) (*engine.Statement, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.prepared[string(id)]; s != nil {
		return s, nil
	}
	return nil, &Error{
		Code: CodeUnprepared, id: id,
		Message: fmt.Sprintf("Prepared query with ID %x not found (either the query was not prepared on this host (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)", id),
	}
}

// schemaChanged tells clients, and drops what was prepared against the old schema.
func (c *Cluster) schemaChanged(change engine.Change) {
	c.version.Store(c.engine.Schema().Version)
	for _, n := range c.nodes {
		n.mu.Lock()
		for id, s := range n.prepared {
			if s.Keyspace == change.Keyspace && (change.Target == "KEYSPACE" || s.Table == change.Name) {
				n.drop(id)
			}
		}
		n.mu.Unlock()
	}
	c.tell(schemaEvent, appendChange(nil, change))
}
