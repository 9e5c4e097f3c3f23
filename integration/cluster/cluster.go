package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrNoServer says that no server can be had here: neither addresses in the environment nor the tools to start one. Its
// text says what is missing, what to install and which variable to set.
var ErrNoServer = errors.New("cluster: no server can be had here")

// startLimit bounds the wait for a server that was started, or for a cluster that heals.
const startLimit = 3 * time.Minute

// logLines is how much of a server's log an error carries.
const logLines = 30

// A State is what the operating system says of a node's process.
type State int

const (
	// Dead: the process has ended, by itself or by Kill. Restart and Heal lead out of it.
	Dead State = iota
	// Running: the process runs; whether it answers is another matter (see Cluster.Heal).
	Running
	// Frozen: the process is stopped, by Freeze. Thaw, Heal, Kill and Restart lead out of it.
	Frozen
)

// String returns the state in lower case.
func (s State) String() string { return [...]string{"dead", "running", "frozen"}[s] }

// A server is what a cluster can do to one node that it has started.
type server interface {
	pid() int
	state() State
	freeze() error
	thaw() error
	kill() error
	start() error                      // with the data it has; an error when it is not dead
	accepts(ctx context.Context) error // waits until it takes connections; an error when it ends before
	log(lines int) string
}

// A Cluster is a set of running servers. Its methods may be called concurrently; only the faults of one node should come
// from one goroutine.
type Cluster struct {
	chosen         string
	user, password string
	nodes          []*Node
	healthy        func(ctx context.Context, address string) error // nil when the cluster is whole as that node sees it
	release        func() error                                    // what Close does, once

	close struct {
		once sync.Once
		err  error
	}
}

// A Node is one server of a cluster.
type Node struct {
	cluster *Cluster
	name    string // for errors: node 0 (127.0.40.1)
	address string
	server  server // nil when the address came from the environment
}

// Addresses returns where clients connect, one a node: an IP address or host name, and a port only when it was given in
// the environment. Without one it is the server's usual port (9042).
func (c *Cluster) Addresses() []string {
	addresses := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addresses[i] = n.address
	}
	return addresses
}

// Node returns node i, counted from 0 in the order of Addresses. It panics when there is no such node, as a slice does.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Nodes returns all nodes in the order of Addresses.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Credentials returns the user and password to log in with, a superuser where this package has started the servers. Both
// are empty when the servers ask for none.
func (c *Cluster) Credentials() (user, password string) { return c.user, c.password }

// Chosen says where the servers come from, for logs: "JVM processes, Cassandra 5.0.6, 3 nodes on 127.0.40.1-3" or
// "addresses from the environment: 10.0.0.1, 10.0.0.2".
func (c *Cluster) Chosen() string { return c.chosen }

// CanFault reports whether Freeze, Thaw, Kill and Restart work. They do for servers that this package has started.
func (c *Cluster) CanFault() bool { return c.release != nil }

// Heal thaws what is frozen, starts what is dead, and returns when every node answers clients and sees all others up.
// A cluster from the environment is only waited for. When a node cannot come back, or ctx or three minutes end, the error
// says which node and carries the end of its log.
func (c *Cluster) Heal(ctx context.Context) error {
	ctx, cancel := limit(ctx)
	defer cancel()
	for _, n := range c.nodes {
		if n.server == nil {
			continue
		}
		var err error
		switch n.server.state() {
		case Frozen:
			err = n.server.thaw()
		case Dead:
			err = n.server.start()
		}
		if err != nil {
			return fmt.Errorf("cluster: heal %s: %w", n.name, err)
		}
	}
	if err := c.settle(ctx); err != nil {
		return fmt.Errorf("cluster: heal: %w", err)
	}
	return nil
}

// settle waits until the cluster is whole in the eyes of every node.
func (c *Cluster) settle(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until the cluster is whole in the eyes of n.
func (n *Node) settle(ctx context.Context) error {
	if n.server != nil {
		if err := n.server.accepts(ctx); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
	}
	for {
		err := n.cluster.healthy(ctx, n.address)
		if err == nil {
			return nil
		}
		if n.server != nil && n.server.state() == Dead {
			return fmt.Errorf("%s ended; the end of its log:\n%s", n.name, n.server.log(logLines))
		}
		if cause := sleep(ctx, 2*pause); cause != nil {
			err = fmt.Errorf("%s: %w; last: %w", n.name, cause, err)
			if n.server != nil {
				err = fmt.Errorf("%w; the end of its log:\n%s", err, n.server.log(logLines))
			}
			return err
		}
	}
}

// Close ends all processes, frozen ones too, and removes their data. Only the first call does, the others return its
// result; no node can be started after it. It does nothing to servers from the environment.
func (c *Cluster) Close() error {
	c.close.once.Do(func() {
		if c.release != nil {
			if err := c.release(); err != nil {
				c.close.err = fmt.Errorf("cluster: close: %w", err)
			}
		}
	})
	return c.close.err
}

// Address returns where clients connect (see Cluster.Addresses).
func (n *Node) Address() string { return n.address }

// PID returns the process id, or 0 when the node came from the environment. It changes with Restart and Heal.
func (n *Node) PID() int {
	if n.server == nil {
		return 0
	}
	return n.server.pid()
}

// State asks the operating system. A node from the environment is always Running.
func (n *Node) State() State {
	if n.server == nil {
		return Running
	}
	return n.server.state()
}

// Log returns the last lines of what the server has written, over all its restarts; empty for a node from the environment.
func (n *Node) Log(lines int) string {
	if n.server == nil {
		return ""
	}
	return n.server.log(lines)
}

// Freeze stops the node (SIGSTOP) and returns when none of its threads runs. Its connections stay open and silent.
// An error when it is dead; freezing a frozen node does nothing.
func (n *Node) Freeze() error { return n.fault("freeze", server.freeze) }

// Thaw lets a frozen node run on (SIGCONT). It does not wait until the others see it up: Heal does. An error when it is
// dead; thawing a running node does nothing.
func (n *Node) Thaw() error { return n.fault("thaw", server.thaw) }

// Kill ends the node (SIGKILL), frozen or not, and returns when the process is gone and its ports are free. Its data stays.
// Killing a dead node does nothing.
func (n *Node) Kill() error { return n.fault("kill", server.kill) }

// Restart kills the node when it is not dead, starts it with its data, and returns when it takes client connections. What
// it can serve depends on the others, and they may take seconds to see it up: Heal waits for that. The limit is the end of
// ctx, or three minutes.
func (n *Node) Restart(ctx context.Context) error {
	ctx, cancel := limit(ctx)
	defer cancel()
	return n.fault("restart", func(s server) error {
		if err := errors.Join(s.kill(), s.start()); err != nil {
			return err
		}
		return s.accepts(ctx)
	})
}

func (n *Node) fault(verb string, do func(server) error) error {
	if n.server == nil {
		return fmt.Errorf("cluster: cannot %s %s: it was not started here but given in the environment (ask CanFault first)", verb, n.name)
	}
	if err := do(n.server); err != nil {
		return fmt.Errorf("cluster: %s %s: %w", verb, n.name, err)
	}
	return nil
}

// limit bounds ctx by startLimit.
func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %s", startLimit))
}

// pause is the interval of every wait for a condition that can only be polled.
const pause = 50 * time.Millisecond

// sleep waits for d and returns the cause when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
