package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
)

// reconnectEvery is how soon a node that went down is tried again. gocql waits a
// minute, in which a lost quorum could be back without anybody noticing.
const reconnectEvery = 5 * time.Second

// Configure prepares a gocql configuration for ownership, in place. Of cfg it
// looks at Keyspace, Serial, DataCenter and Timing. It sets
//
//   - PoolConfig.HostSelectionPolicy: requests of this package go to one replica
//     of their partition until it stops answering, under LOCAL_SERIAL within
//     DataCenter only. All other queries go by the policy that was set before
//   - ProtoVersion to 4 if it is 0
//   - Timeout to at least Timing.RequestTimeout, WriteTimeout to that if it is 0,
//     so that a connection to a frozen node does not block its other users
//   - ReconnectInterval to at most 5 s
//
// All else is left alone; what statements of this package need, such as no
// retries, they carry themselves. Use a configuration for one session only, as
// gocql demands of every host selection policy.
func Configure(cluster *gocql.ClusterConfig, cfg Config) error {
	if err := configure(cluster, cfg); err != nil {
		return fmt.Errorf("cassandra.Configure: %w", err)
	}
	return nil
}

func configure(cluster *gocql.ClusterConfig, cfg Config) error {
	cfg = cfg.withDefaults()
	faults := []error{cfg.validateLayout(), cfg.Timing.Validate()}
	if cluster == nil {
		faults = append(faults, ownership.Invalid("cluster", "nil", "must not be nil", "make one with gocql.NewCluster"))
	} else if cluster.ProtoVersion != 0 && cluster.ProtoVersion != 4 {
		faults = append(faults, ownership.Invalid("ProtoVersion", cluster.ProtoVersion, "must be 4", "leave it 0"))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	cluster.ProtoVersion = 4
	cluster.PoolConfig.HostSelectionPolicy = newHostPolicy(cfg.DataCenter, cluster.PoolConfig.HostSelectionPolicy)
	if cluster.Timeout > 0 { // 0: no timeout
		cluster.Timeout = max(cluster.Timeout, cfg.Timing.RequestTimeout)
	}
	if cluster.WriteTimeout == 0 {
		cluster.WriteTimeout = cfg.Timing.RequestTimeout
	}
	if cluster.ReconnectInterval <= 0 || cluster.ReconnectInterval > reconnectEvery {
		cluster.ReconnectInterval = reconnectEvery
	}
	return nil
}

// Connect opens a session on a copy of cluster that went through [Configure]. It
// returns when ctx ends, and its errors say what to do; those of gocql itself
// lose their types here. Closing the session is up to the caller.
func Connect(ctx context.Context, cluster *gocql.ClusterConfig, cfg Config) (*gocql.Session, error) {
	own := &gocql.ClusterConfig{}
	if cluster == nil {
		own = nil
	} else {
		*own = *cluster
	}
	if err := configure(own, cfg); err != nil {
		return nil, fmt.Errorf("cassandra.Connect: %w", err)
	}
	opened := make(chan *gocql.Session, 1)
	session, err := guard(ctx, func(context.Context) (*gocql.Session, error) {
		defer close(opened)
		s, err := own.CreateSession()
		opened <- s
		return s, err
	})
	if err != nil && ctx.Err() != nil {
		go func() { // gocql goes on connecting, bounded by its ConnectTimeout
			if late := <-opened; late != nil {
				late.Close()
			}
		}()
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", strings.Join(own.Hosts, ", "), explainConnect(err))
	}
	return session, nil
}

// explainConnect does what explain does, for errors that gocql made text of.
func explainConnect(err error) error {
	text := strings.ToLower(err.Error())
	switch {
	case errors.Is(err, gocql.ErrNoHosts):
		return fmt.Errorf("no address was given: %w; pass some to gocql.NewCluster", err)
	case strings.Contains(text, "provided username") || strings.Contains(text, "credential") || strings.Contains(text, "authentication"):
		return fmt.Errorf("the login failed: %w; check the user and password of the cluster's Authenticator", err)
	case errors.Is(err, gocql.ErrNoConnectionsStarted): // a node answered before
		return fmt.Errorf("no node lets this session in: %w; check that the keyspace exists, if ClusterConfig.Keyspace names one", err)
	case strings.Contains(text, "failed to resolve any of the provided hostnames"):
		return fmt.Errorf("no address can be resolved: %w; check how the hosts are spelled, and the name server", err)
	case strings.Contains(text, "unable to dial") || strings.Contains(text, "connection refused") ||
		strings.Contains(text, "unable to connect") || strings.Contains(text, "i/o timeout"):
		return fmt.Errorf("no node answers: %w; check that Cassandra is up and the addresses are right", err)
	}
	return explain(err)
}
