package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Cassandra describes the Cassandra servers that a test wants. The zero value is a three-node cluster of version 5.0.6
// with Paxos v2 and no login. A cluster from the environment is taken as it is: only Auth is compared with it.
type Cassandra struct {
	// Version is a release 4.1.x or 5.0.x; default 5.0.6.
	Version string
	// Nodes is 1 or 3; default 3. One node takes about 830 MB.
	Nodes int
	// Paxos is the server's paxos_variant: v1 or v2; default v2 (Cassandra's own is v1).
	Paxos string
	// Auth turns on PasswordAuthenticator and CassandraAuthorizer, with no cache in front of them: a GRANT holds from
	// the next statement on. The superuser is cassandra, its password cassandra; logins are replicated to every node.
	Auth bool
	// CASTimeout is the server's cas_contention_timeout, in whole milliseconds; 0 leaves the server's default.
	CASTimeout time.Duration
	// CommitLogSync is the server's commitlog_sync: periodic (every 10 s) or batch; default periodic.
	CommitLogSync string
	// HeapMiB is the heap of each node in MiB, 256 to 8192; default 512.
	HeapMiB int
	// Log gets one line a step while the servers start (download, nodes, times); nil: nothing. It is not kept.
	Log io.Writer
}

var release = regexp.MustCompile(`^(4\.1|5\.0)\.[0-9]+$`)

// resolve returns cfg with its defaults filled in, or all its faults.
func (cfg Cassandra) resolve() (Cassandra, error) {
	if cfg.Version == "" {
		cfg.Version = "5.0.6"
	}
	if cfg.Nodes == 0 {
		cfg.Nodes = 3
	}
	if cfg.Paxos == "" {
		cfg.Paxos = "v2"
	}
	if cfg.CommitLogSync == "" {
		cfg.CommitLogSync = "periodic"
	}
	if cfg.HeapMiB == 0 {
		cfg.HeapMiB = 512
	}
	var faults []error
	fault := func(field string, value any, rule string) {
		faults = append(faults, fmt.Errorf("cluster: Cassandra.%s is %v: it must be %s", field, value, rule))
	}
	if !release.MatchString(cfg.Version) {
		fault("Version", strconv.Quote(cfg.Version), "a release 4.1.x or 5.0.x, as 5.0.6")
	}
	if cfg.Nodes != 1 && cfg.Nodes != 3 {
		fault("Nodes", cfg.Nodes, "1 or 3")
	}
	if cfg.Paxos != "v1" && cfg.Paxos != "v2" {
		fault("Paxos", strconv.Quote(cfg.Paxos), "v1 or v2")
	}
	if cfg.CASTimeout < 0 || cfg.CASTimeout%time.Millisecond != 0 {
		fault("CASTimeout", cfg.CASTimeout, "a whole number of milliseconds, or 0 for the server's default")
	}
	if cfg.CommitLogSync != "periodic" && cfg.CommitLogSync != "batch" {
		fault("CommitLogSync", strconv.Quote(cfg.CommitLogSync), "periodic or batch")
	}
	if cfg.HeapMiB < 256 || cfg.HeapMiB > 8192 {
		fault("HeapMiB", cfg.HeapMiB, "256 to 8192")
	}
	return cfg, errors.Join(faults...)
}

// The first token of each third of the ring: with one node a third, three replicas are on three nodes and every node
// coordinates alike.
var tokens = []string{"-9223372036854775808", "-3074457345618258603", "3074457345618258602"}

// Start returns a cluster that is whole: every node answers, logs clients in and sees all others up. Addresses in the
// environment (TENURE_CASSANDRA) come first; else it starts JVM processes, and downloads the server the first time. The
// caller must Close the cluster.
//
// A wrong field is reported together with all other wrong ones, before anything starts. errors.Is(err, ErrNoServer) tells
// that this machine cannot run the servers. Every other error says what failed, and carries the end of the log of a
// node that did not start. The limit is the end of ctx, or three minutes a step. No process and no data stay behind.
func (cfg Cassandra) Start(ctx context.Context) (*Cluster, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	given, err := givenCassandra()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	say := func(format string, args ...any) {
		if cfg.Log != nil {
			// A log that cannot be written is no reason to start no server.
			_, _ = fmt.Fprintf(cfg.Log, "%5.1fs %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		}
	}
	if given == nil {
		return cfg.launch(ctx, say)
	}
	say("waiting for %s=%s", addressesVariable, strings.Join(given.addresses, ","))
	return given.connect(ctx, cfg)
}
