package cqlfake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake/internal/engine"
)

// Versions that were compared with real servers.
const (
	Version50 = "5.0.6"
	Version41 = "4.1.10"
)

// maxNodes is what fits behind one address.
const maxNodes = 200

// Options configure a [Cluster]. The zero Options make one node in memory.
type Options struct {
	// Nodes is how many coordinators there are, 1 to 200; 0 means 1. All of them
	// share one set of data.
	Nodes int
	// DataCenters of the nodes, in turn; empty: datacenter1 for all.
	DataCenters []string
	// Version is the release that the nodes claim to be: [Version50], which is the
	// default, or [Version41]. It decides what the system tables have and show, and
	// not how statements are carried out, which is as 5.0 does.
	Version string
	// Listen is the address of the first node, as 127.0.0.1:0, for TCP on loopback.
	// The others follow on the next addresses (127.0.0.2 …) and the same port,
	// which drivers want; with port 0 one is found that is free on all of them.
	// Empty: in memory, at made-up addresses.
	Listen string
	// Users are names and passwords; with any, clients must log in. Every user may
	// do everything.
	Users map[string]string
	// Settings change or add rows of system_views.settings; they change nothing
	// else.
	Settings map[string]string
	// Now is the clock of all nodes; nil: time.Now, which in a bubble of
	// testing/synctest is the bubble's. See also [Node.Advance].
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Version == "" {
		o.Version = Version50
	}
	if len(o.DataCenters) == 0 {
		o.DataCenters = []string{"datacenter1"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// validate reports all faults at once.
func (o Options) validate() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Nodes < 1 || o.Nodes > maxNodes {
		add("Nodes is %d; it must be from 1 to %d", o.Nodes, maxNodes)
	}
	if o.Version != Version50 && o.Version != Version41 {
		add("Version is %q; it must be %s or %s, the ones this was compared with", o.Version, Version50, Version41)
	}
	if slices.Contains(o.DataCenters, "") {
		add("DataCenters has an empty name")
	}
	if o.Listen != "" {
		a, err := netip.ParseAddrPort(o.Listen)
		switch {
		case err != nil:
			add("Listen is %q; it must be an IP address and a port, as 127.0.0.1:0", o.Listen)
		case !a.Addr().IsLoopback():
			add("Listen is %q; it must be a loopback address, since anybody who reaches it may do everything", o.Listen)
		case o.Nodes > 1 && !a.Addr().Is4():
			add("Listen is %q; several nodes need 127.0.0.0/8, since IPv6 has one loopback address", o.Listen)
		}
	}
	for name := range o.Users {
		if name == "" || strings.ContainsRune(name, 0) {
			add("Users has the name %q", name)
		}
	}
	return errors.Join(faults...)
}

// Cluster is a fake cluster. Its methods may be called from any goroutine.
type Cluster struct {
	opts   Options
	engine *engine.Engine
	nodes  []*Node
	done   chan struct{} // closed by Close

	version atomic.Value // of the schema, a [16]byte

	// system tables differ by node, and the engine does not know of nodes: local is
	// the one that is being asked.
	systemMu sync.Mutex
	local    *Node

	mu      sync.Mutex
	closed  bool
	faults  []*Injection // replaced, never changed
	observe func(Request)
	wg      sync.WaitGroup
}

// New starts a cluster. Close it when done. In a bubble of testing/synctest, make
// it within the bubble.
func New(opts Options) (*Cluster, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("cqlfake.New: %w", err)
	}
	c := &Cluster{opts: opts, done: make(chan struct{})}
	c.engine = engine.New(engine.Options{})
	listeners, addresses, err := listen(opts)
	if err != nil {
		return nil, fmt.Errorf("cqlfake.New: %w", err)
	}
	for i, a := range addresses {
		c.nodes = append(c.nodes, newNode(c, i, a))
	}
	c.local = c.nodes[0]
	c.defineSystem()
	c.version.Store(c.engine.Schema().Version)
	for i, l := range listeners {
		n := c.nodes[i]
		n.listener = l
		c.spawn(func() { n.accept(l) })
	}
	return c, nil
}

// TB is the part of [testing.TB] that [Start] needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start is [New] for a test: the cluster is closed at its end, and an error ends
// it at once.
func Start(t TB, opts Options) *Cluster {
	t.Helper()
	c, err := New(opts)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(c.Close)
	return c
}

// memoryPort and memoryAddress are of the network that is set aside for examples:
// a client that does not use our dialer gets nowhere.
const memoryPort = 9042

var memoryAddress = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// listen returns the addresses of the nodes, and over TCP their listeners.
func listen(opts Options) ([]net.Listener, []*net.TCPAddr, error) {
	if opts.Listen == "" {
		return nil, consecutive(memoryAddress, memoryPort, opts.Nodes), nil
	}
	first := netip.MustParseAddrPort(opts.Listen)
	var failed error
	for range 20 { // port 0: until one is free on every address
		var listeners []net.Listener
		port := int(first.Port())
		for _, a := range consecutive(first.Addr(), port, opts.Nodes) {
			a.Port = port
			var l net.Listener
			if l, failed = net.ListenTCP("tcp", a); failed != nil {
				break
			}
			listeners = append(listeners, l)
			port = l.Addr().(*net.TCPAddr).Port
		}
		if failed == nil {
			return listeners, consecutive(first.Addr(), port, opts.Nodes), nil
		}
		for _, l := range listeners {
			_ = l.Close()
		}
		if first.Port() != 0 {
			break
		}
	}
	return nil, nil, fmt.Errorf("%w; use one node, or none of the addresses by leaving Listen empty, where the system has only 127.0.0.1", failed)
}

func consecutive(first netip.Addr, port, n int) []*net.TCPAddr {
	var list []*net.TCPAddr
	for range n {
		list = append(list, net.TCPAddrFromAddrPort(netip.AddrPortFrom(first, uint16(port))))
		first = first.Next()
	}
	return list
}

// Close ends all connections and waits for what is under way. Requests that a
// fault holds back are dropped. Close it after the sessions on it: they would try
// to reconnect.
func (c *Cluster) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	c.mu.Unlock()
	for _, n := range c.nodes {
		n.shut()
	}
	c.wg.Wait()
}

// spawn runs f, unless the cluster is closed; Close waits for it.
func (c *Cluster) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(f)
	return true
}

// sleep waits, and reports whether the cluster is still there.
func (c *Cluster) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.done:
		return false
	}
}

// Addresses returns the addresses of the nodes, with ports.
func (c *Cluster) Addresses() []string {
	var list []string
	for _, n := range c.nodes {
		list = append(list, n.Address())
	}
	return list
}

// Nodes returns all nodes, in the order of their addresses.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Node returns a node by its number, which counts from 0. It panics if there is
// none.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Advance moves the clocks of all nodes; see [Node.Advance].
func (c *Cluster) Advance(d time.Duration) {
	for _, n := range c.nodes {
		n.Advance(d)
	}
}

// ClusterConfig returns a configuration for the cluster: what [gocql.NewCluster]
// makes, after [Cluster.Configure], and without its waiting to coalesce writes. With
// Users it logs in as the first of them by name.
func (c *Cluster) ClusterConfig() *gocql.ClusterConfig {
	cfg := gocql.NewCluster()
	cfg.WriteCoalesceWaitTime = 0
	for _, user := range slices.Sorted(maps.Keys(c.opts.Users)) {
		cfg.Authenticator = gocql.PasswordAuthenticator{Username: user, Password: c.opts.Users[user]}
		break
	}
	c.Configure(cfg)
	return cfg
}

// Configure makes cfg one for this cluster: it sets Hosts, Port, and, in memory,
// Dialer.
func (c *Cluster) Configure(cfg *gocql.ClusterConfig) {
	cfg.Hosts, cfg.Port = nil, c.nodes[0].addr.Port
	for _, n := range c.nodes {
		cfg.Hosts = append(cfg.Hosts, n.addr.IP.String())
	}
	if c.opts.Listen == "" {
		cfg.Dialer = c
	}
}

// DialContext connects to a node: in memory by itself, otherwise by TCP. It
// implements [gocql.Dialer].
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	refuse := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return refuse(err)
	}
	for _, n := range c.nodes {
		if n.Address() != address {
			continue
		}
		if n.listener != nil {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
		client, server := newPipe(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 254), Port: int(n.dialled.Add(1))}, n.addr)
		if !n.open(server) {
			return refuse(errors.New("connection refused: the node is stopped, or the cluster closed"))
		}
		return client, nil
	}
	return refuse(fmt.Errorf("no node at %s; there are %s", address, strings.Join(c.Addresses(), ", ")))
}

func (c *Cluster) release() (major int) {
	head, _, _ := strings.Cut(c.opts.Version, ".")
	major, _ = strconv.Atoi(head)
	return major
}
