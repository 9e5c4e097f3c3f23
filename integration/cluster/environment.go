package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Variables that give a cluster instead of starting one.
const (
	addressesVariable = "TENURE_CASSANDRA"
	userVariable      = "TENURE_CASSANDRA_USER"
	passwordVariable  = "TENURE_CASSANDRA_PASSWORD"
)

// givenLimit lets containers come up that were started with the test, and is short enough for a mistyped address.
const givenLimit = time.Minute

// given is a cluster that the environment names.
type given struct {
	addresses      []string
	user, password string
}

// givenCassandra returns nil when the environment names no cluster, or all faults of what it says.
func givenCassandra() (*given, error) {
	list, user, password := os.Getenv(addressesVariable), os.Getenv(userVariable), os.Getenv(passwordVariable)
	if list == "" {
		return nil, nil
	}
	var faults []error
	g := &given{user: user, password: password}
	for a := range strings.SplitSeq(list, ",") {
		if a = strings.TrimSpace(a); a == "" {
			faults = append(faults, fmt.Errorf("cluster: %s is %q: it must be addresses with one comma between two, as 10.0.0.1,10.0.0.2", addressesVariable, list))
			break
		}
		g.addresses = append(g.addresses, a)
	}
	if (user == "") != (password == "") {
		faults = append(faults, fmt.Errorf("cluster: set both %s and %s, or neither", userVariable, passwordVariable))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return g, nil
}

// connect waits until every given node lets a client log in.
func (g *given) connect(ctx context.Context, cfg Cassandra) (*Cluster, error) {
	if cfg.Auth && g.user == "" {
		return nil, fmt.Errorf("%w: the test needs servers that ask for a login: set %s and %s for those of %s, or unset it",
			ErrNoServer, userVariable, passwordVariable, addressesVariable)
	}
	a := access{user: g.user, password: g.password}
	c := &Cluster{
		chosen: "addresses from the environment: " + strings.Join(g.addresses, ", "),
		user:   g.user, password: g.password, healthy: a.healthy,
	}
	for i, address := range g.addresses {
		c.nodes = append(c.nodes, &Node{cluster: c, name: fmt.Sprintf("node %d (%s)", i, address), address: address})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, givenLimit, fmt.Errorf("no cluster after %s", givenLimit))
	defer cancel()
	if err := c.settle(ctx); err != nil {
		return nil, fmt.Errorf("cluster: %s=%s: %w", addressesVariable, strings.Join(g.addresses, ","), err)
	}
	return c, nil
}

// underCI reports whether a test that cannot run must fail: CI is set, as every common CI service does, and not to false.
func underCI() bool {
	value := os.Getenv("CI")
	if yes, err := strconv.ParseBool(value); err == nil {
		return yes
	}
	return value != ""
}
