package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/ownership"
)

// access is how the parent, and each worker, gets at the cluster.
type access struct {
	Hosts    []string         `json:"hosts"`
	Keyspace string           `json:"keyspace"`
	User     string           `json:"user,omitempty"`
	Password string           `json:"password,omitempty"`
	Timing   ownership.Timing `json:"timing"`
	Unfenced bool             `json:"unfenced,omitempty"`
}

func accessOf(o options) access {
	return access{Hosts: o.hosts, Keyspace: o.keyspace, User: o.user, Password: o.password, Timing: o.timing, Unfenced: o.unfenced}
}

func (a access) config() cassandra.Config {
	// One replica is fine for a demonstration.
	return cassandra.Config{Keyspace: a.Keyspace, Timing: a.Timing, AllowSingleReplica: true}
}

// connect opens a session; dialer is nil or the way through a relay.
func (a access) connect(ctx context.Context, dialer gocql.Dialer) (*gocql.Session, error) {
	cluster := gocql.NewCluster(a.Hosts...)
	cluster.Logger = silent{} // what matters comes as an error
	cluster.ConnectTimeout = connectTimeout / 3
	// An answer may be late by as long as a worker is frozen. The lease's own
	// requests have a timeout of their own.
	cluster.Timeout = a.patience()
	cluster.Dialer = dialer
	if a.User != "" {
		cluster.Authenticator = gocql.PasswordAuthenticator{Username: a.User, Password: a.Password}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout,
		fmt.Errorf("no answer within %v; check that Cassandra is up there and can be reached from here", connectTimeout))
	defer cancel()
	return cassandra.Connect(ctx, cluster, a.config())
}

// patience is longer than any worker is frozen.
func (a access) patience() time.Duration { return 3*a.Timing.TTL + 30*time.Second }

// connectTimeout bounds the time until the user is told that nobody answers.
const connectTimeout = 15 * time.Second

// createSchema makes what is missing: the keyspace, the tables of ownership and
// the two that the workers write to.
func (a access) createSchema(ctx context.Context, session *gocql.Session, replicationFactor int) error {
	cfg := a.config()
	report, err := cassandra.Check(ctx, session, cfg)
	if err != nil {
		return err
	}
	if cfg.Replication, err = replication(report.Nodes, replicationFactor); err != nil {
		return err
	}
	if err := cassandra.CreateSchema(ctx, session, cfg); err != nil {
		return err
	}
	return createLedgers(ctx, session, a.Keyspace)
}

// replication spreads a new keyspace over every data centre. A factor of 0 stands
// for 3, or as many nodes as there are.
func replication(nodes []cassandra.Node, factor int) (map[string]int, error) {
	r := map[string]int{}
	for _, n := range nodes {
		r[n.DataCenter]++
	}
	for dc, size := range r {
		if factor > size {
			return nil, fmt.Errorf("--replication-factor is %d, but data centre %s has %d nodes; lower it, or leave it out", factor, dc, size)
		}
		r[dc] = min(size, 3)
		if factor > 0 {
			r[dc] = factor
		}
	}
	return r, nil
}

// silent keeps the driver from writing to the terminal.
type silent struct{}

func (silent) Print(...any)          {}
func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}
