package cassandra

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
)

// wantFaults checks that err names every part, and is an ErrInvalid.
func wantFaults(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one about %q", parts)
	}
	if !errors.Is(err, ownership.ErrInvalid) {
		t.Errorf("%v is no ErrInvalid", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q is not named in:\n%v", p, err)
		}
	}
}

func good() Config { return Config{Keyspace: "ks", Owner: "worker"} }

// Bad input is refused before anything is touched, here a session that would
// panic, and all of it at once (DESIGN 7).
func TestNewRefusesBadInput(t *testing.T) {
	untouched := &gocql.Session{}
	_, err := New(t.Context(), nil, Config{
		Keyspace: "a b", Serial: 3, Buckets: -1, Owner: "", Replication: map[string]int{"": 0},
		Timing:    ownership.Timing{TTL: 1500 * time.Millisecond, RenewEvery: -1},
		PollEvery: -1, AuditEvery: math.MaxInt64, TokenFloor: -1, LockDelay: -1,
	})
	wantFaults(t, err, "session is nil", `Keyspace is "a b"`, "Serial is 0x3", "Buckets is -1", "owner is", "Replication",
		"Timing.TTL is 1.5s: it must be a multiple of 1s", "Timing.RenewEvery", "PollEvery", "AuditEvery", "TokenFloor", "LockDelay")

	for name, c := range map[string]struct {
		spoil func(*Config)
		want  string
	}{
		"empty keyspace":       {func(c *Config) { c.Keyspace = "" }, "Keyspace"},
		"overlong keyspace":    {func(c *Config) { c.Keyspace = strings.Repeat("k", 49) }, "48"},
		"quoted keyspace":      {func(c *Config) { c.Keyspace = `x"; DROP` }, "Keyspace"},
		"empty owner":          {func(c *Config) { c.Owner = "" }, "owner"},
		"overlong owner":       {func(c *Config) { c.Owner = strings.Repeat("o", 300) }, "256"},
		"owner not UTF-8":      {func(c *Config) { c.Owner = "\xff" }, "UTF-8"},
		"negative TTL":         {func(c *Config) { c.Timing.TTL = -time.Second }, "Timing.TTL"},
		"TTL of half seconds":  {func(c *Config) { c.Timing.TTL = 2500 * time.Millisecond }, "Timing.TTL"},
		"TTL too short":        {func(c *Config) { c.Timing.TTL = time.Second }, "Timing.TTL"},
		"enormous TTL":         {func(c *Config) { c.Timing.TTL = 1000 * time.Hour }, "at most"},
		"negative granularity": {func(c *Config) { c.Timing.Granularity = -1 }, "Timing.Granularity is -1ns"},
		"contradicting times":  {func(c *Config) { c.Timing.RenewEvery = 10 * time.Second }, "two lost renewals"},
		"too many buckets":     {func(c *Config) { c.Buckets = MaxBuckets + 1 }, "Buckets"},
		"data centre, SERIAL":  {func(c *Config) { c.DataCenter = "dc1" }, "DataCenter"},
		"no data centre":       {func(c *Config) { c.Serial = gocql.LocalSerial }, "DataCenter"},
		"negative poll":        {func(c *Config) { c.PollEvery = -1 }, "PollEvery"},
		"negative audit":       {func(c *Config) { c.AuditEvery = -1 }, "AuditEvery"},
		"negative token floor": {func(c *Config) { c.TokenFloor = -1 }, "TokenFloor"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good()
			c.spoil(&cfg)
			_, err := New(t.Context(), untouched, cfg)
			wantFaults(t, err, c.want)
			if n := strings.Count(err.Error(), "\n"); n > 0 {
				t.Errorf("one fault is reported as %d:\n%v", n+1, err)
			}
		})
	}
}

func TestOthersRefuseBadInput(t *testing.T) {
	bad := Config{Keyspace: "-", Buckets: -1}
	wantFaults(t, CreateSchema(t.Context(), nil, bad), "session", "Keyspace", "Buckets")
	wantFaults(t, Migrate(t.Context(), nil, bad), "session", "Keyspace", "Buckets")
	_, err := Check(t.Context(), nil, bad)
	wantFaults(t, err, "session", "Keyspace", "Buckets")
	// Check finds what New refuses, but for the owner, who need not have a name yet.
	fine := Config{Keyspace: "ks"}
	fine.Timing.TTL, fine.PollEvery, fine.AuditEvery, fine.TokenFloor, fine.LockDelay = 2500*time.Millisecond, -1, -1, -1, -1
	_, err = Check(t.Context(), &gocql.Session{}, fine)
	wantFaults(t, err, "Timing.TTL is 2.5s", "PollEvery", "AuditEvery", "TokenFloor", "LockDelay")
	if strings.Contains(err.Error(), "owner") {
		t.Errorf("Check asks for an owner: %v", err)
	}
	fine = Config{Keyspace: "ks", Timing: ownership.Timing{Granularity: -1}}
	_, err = Check(t.Context(), &gocql.Session{}, fine)
	wantFaults(t, err, "Timing.Granularity is -1ns: it must not be negative")
	wantFaults(t, Configure(gocql.NewCluster(), fine), "Timing.Granularity")
	_, err = NewStore(nil, bad)
	wantFaults(t, err, "session", "Keyspace", "Buckets")
	_, err = Connect(t.Context(), nil, bad)
	wantFaults(t, err, "cassandra.Connect: ", "cluster is nil", "Keyspace", "Buckets")
	cluster := gocql.NewCluster()
	cluster.ProtoVersion = 5
	wantFaults(t, Configure(cluster, bad), "cassandra.Configure: ", "ProtoVersion is 5", "Keyspace")
	if cluster.PoolConfig.HostSelectionPolicy != nil {
		t.Error("a refused configuration was changed")
	}
	_, err = NewFence(t.Context(), nil, FenceConfig{Keyspace: "k", Table: "a.b", RequestTimeout: time.Nanosecond})
	wantFaults(t, err, "session", "Table", "RequestTimeout")
	for _, ours := range []string{SessionTable, OwnershipTable, MetaTable} {
		_, err = NewFence(t.Context(), &gocql.Session{}, FenceConfig{Keyspace: "k", Table: ours})
		wantFaults(t, err, `Table is "`+ours+`": it must be a table of yours; that one is kept by this package`)
	}
}

func TestConfigure(t *testing.T) {
	cluster := gocql.NewCluster("127.0.0.1")
	mine := gocql.DCAwareRoundRobinPolicy("dc1")
	cluster.PoolConfig.HostSelectionPolicy = mine
	cluster.Timeout = time.Second
	cfg := good()
	if err := Configure(cluster, cfg); err != nil {
		t.Fatal(err)
	}
	p, ok := cluster.PoolConfig.HostSelectionPolicy.(*hostPolicy)
	if !ok || p.rest != mine {
		t.Errorf("the policy is %T", cluster.PoolConfig.HostSelectionPolicy)
	}
	if cluster.ProtoVersion != 4 || cluster.Timeout != 2*time.Second || cluster.WriteTimeout != 2*time.Second || cluster.ReconnectInterval != 5*time.Second {
		t.Errorf("protocol %d, timeouts %v and %v, reconnect %v", cluster.ProtoVersion, cluster.Timeout, cluster.WriteTimeout, cluster.ReconnectInterval)
	}
	if cluster.RetryPolicy != nil || cluster.Keyspace != "" || cluster.Consistency != gocql.Quorum {
		t.Error("what is the user's was changed")
	}
}

// Connect returns at the end of its context although gocql knows none, and leaves
// the caller's configuration alone.
func TestConnectEnds(t *testing.T) {
	cluster := gocql.NewCluster("127.0.0.1")
	reached := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cluster.Dialer = dialer(func(ctx context.Context) error {
		close(reached)
		<-ctx.Done() // gocql's own context, which ends never
		return ctx.Err()
	})
	go func() {
		<-reached
		cancel()
	}()
	_, err := Connect(ctx, cluster, good())
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v; want the context's end, and the address", err)
	}
	if cluster.PoolConfig.HostSelectionPolicy != nil {
		t.Error("the caller's configuration was changed")
	}
	_, err = Connect(t.Context(), gocql.NewCluster(), good())
	if !errors.Is(err, gocql.ErrNoHosts) || !strings.Contains(err.Error(), "no address") {
		t.Errorf("%v; want it to say that there is no address", err)
	}
}
