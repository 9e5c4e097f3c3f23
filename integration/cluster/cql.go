package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/gocql/gocql"
)

// probeLimit bounds one look at one node: a frozen one accepts connections and never answers.
const probeLimit = 5 * time.Second

// An access is how to look at a Cassandra cluster through one of its nodes.
type access struct {
	user, password string
	name           string // what cluster_name must be; empty: any
	nodes          int    // how many must be up; 0: not looked at
}

// with runs do on a session that talks to the node at address alone.
func (a access) with(ctx context.Context, address string, do func(context.Context, *gocql.Session) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("no answer within %s", probeLimit))
	defer cancel()
	cfg := gocql.NewCluster(address)
	cfg.ProtoVersion = 4
	cfg.DisableInitialHostLookup = true // others may be down, and are not asked about
	cfg.Events.DisableNodeStatusEvents, cfg.Events.DisableTopologyEvents, cfg.Events.DisableSchemaEvents = true, true, true
	cfg.NumConns = 1
	cfg.Timeout, cfg.ConnectTimeout = probeLimit, probeLimit
	cfg.ReconnectInterval = 0
	cfg.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 1}
	cfg.Dialer = bound{ctx}
	cfg.Logger = log.New(io.Discard, "", 0) // what matters comes back as an error
	if a.user != "" {
		cfg.Authenticator = gocql.PasswordAuthenticator{Username: a.user, Password: a.password}
	}
	session, err := cfg.CreateSession()
	if err == nil {
		defer session.Close()
		err = do(ctx, session)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// A bound dialer closes its connections when ctx ends: gocql takes no context to create a session.
type bound struct{ ctx context.Context }

func (b bound) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := context.Cause(b.ctx); err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(b.ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(b.ctx, func() { conn.Close() })
	return conn, nil
}

// healthy returns nil when the node at address lets a client log in and, seen through it, the cluster is whole: every
// other node is known, all have the same schema, and all take part in a read.
func (a access) healthy(ctx context.Context, address string) error {
	return a.with(ctx, address, func(ctx context.Context, s *gocql.Session) error {
		var name, schema string
		if err := s.Query(`SELECT cluster_name, schema_version FROM system.local`).WithContext(ctx).Scan(&name, &schema); err != nil {
			return err
		}
		if a.name != "" && name != a.name {
			return fmt.Errorf("the server at %s belongs to the cluster %q, not to %q", address, name, a.name)
		}
		if a.nodes < 2 {
			return nil
		}
		peers := 0
		var peer, other string
		iter := s.Query(`SELECT peer, schema_version FROM system.peers`).WithContext(ctx).Iter()
		for iter.Scan(&peer, &other) {
			if peers++; other != schema {
				return errors.Join(fmt.Errorf("the schema of %s is not yet that of %s", peer, address), iter.Close())
			}
		}
		if err := iter.Close(); err != nil {
			return err
		}
		if peers != a.nodes-1 {
			return fmt.Errorf("%s knows %d of %d other nodes", address, peers, a.nodes-1)
		}
		// A coordinator serves consistency ALL only while its failure detector holds every replica for up, and all answer:
		// the condition that tests depend on, rather than what gossip says. Cassandra itself keeps this table on 3 nodes.
		err := s.Query(`SELECT view_name FROM system_distributed.view_build_status WHERE keyspace_name = 'none' AND view_name = 'none'`).
			WithContext(ctx).Consistency(gocql.All).Iter().Close()
		if err != nil {
			return fmt.Errorf("read from all nodes through %s: %w", address, err)
		}
		return nil
	})
}

// replicateLogins copies the logins to every node, so that clients can log in whichever nodes are down. Cassandra keeps
// them on one node, whatever the size of the cluster.
func (a access) replicateLogins(ctx context.Context, address string) error {
	return a.with(ctx, address, func(ctx context.Context, s *gocql.Session) error {
		err := s.Query(fmt.Sprintf(`ALTER KEYSPACE system_auth WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}`, a.nodes)).
			WithContext(ctx).Exec()
		if err == nil {
			// A read from all replicas writes to those that differ, and waits for it (read_repair = BLOCKING).
			err = s.Query(`SELECT role FROM system_auth.roles WHERE role = ?`, a.user).WithContext(ctx).Consistency(gocql.All).Iter().Close()
		}
		if err != nil {
			return fmt.Errorf("replicate the logins: %w", err)
		}
		return nil
	})
}
