//go:build !linux

package cluster

import (
	"context"
	"fmt"
)

// launch fails: loopback networks, and the ways to end, freeze and watch processes, are those of Linux.
func (cfg Cassandra) launch(context.Context, func(string, ...any)) (*Cluster, error) {
	return nil, fmt.Errorf("%w: servers are started on Linux only; set %s=host,host to a cluster of yours", ErrNoServer, addressesVariable)
}
