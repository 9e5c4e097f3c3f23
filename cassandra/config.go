package cassandra

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// Config says where ownership is kept and how. One value serves all functions
// of this package; each says which fields it looks at. Zero values mean defaults.
type Config struct {
	// Keyspace holds the tables, by the name that the server stores: without
	// quotes, and in lower case unless it was created in quotes. 1 to 48 letters,
	// digits and underscores.
	Keyspace string

	// Serial is the consistency of the consensus: gocql.Serial (the default), by a
	// majority of all replicas, or gocql.LocalSerial, by a majority of those in
	// DataCenter. The choice is stored with the tables, and a process that chose
	// otherwise is refused: the two do not exclude each other.
	//
	// Commits, and plain reads, are at QUORUM or LOCAL_QUORUM to match.
	Serial gocql.SerialConsistency
	// DataCenter is the one that decides under gocql.LocalSerial; every process,
	// wherever it runs, sends its requests there. Empty under gocql.Serial.
	DataCenter string

	// Buckets is the bucket rule. It is stored with the tables, and a process that
	// follows another is refused: its tokens would start again from 1.
	Buckets Buckets

	// Replication makes CreateSchema create the keyspace if it is not there: the
	// number of replicas by data centre. Without it the keyspace must exist.
	Replication map[string]int
	// AllowSingleReplica accepts a keyspace with one replica, for development: a
	// lost disk then loses the tokens, and a restarted node stops ownership.
	AllowSingleReplica bool

	// Owner is the name of this process, for people; see [ownership.Owner].
	Owner string
	// Timing is the arithmetic of the lease; see [ownership.Timing]. TTL must be
	// whole seconds. Granularity is 1 s at least.
	Timing ownership.Timing
	// Hooks hear of what happens.
	Hooks ownership.Hooks
	// PollEvery is the base of a waiter's polling; see [lease.Config].
	PollEvery time.Duration
	// AuditEvery is how often a process reads its own rows; see [lease.Config].
	AuditEvery time.Duration
	// TokenFloor is below every token granted, after tokens were lost; see
	// [lease.Config].
	TokenFloor ownership.Token
	// LockDelay is a wait after a crash before the next grant; see [lease.Config].
	LockDelay time.Duration
}

// Buckets says how many counters the resources share. 0, the default, gives each
// resource a bucket of its own, with tokens of its own: for singletons and for
// shards that are claimed one by one. n spreads all resources over n buckets by a
// hash of their names: for processes that claim many resources at once, which is
// one request a bucket for up to 250 of them. Neighbours in a bucket share its
// tokens, which then have gaps, and claims of one bucket wait for each other.
type Buckets int

// MaxBuckets bounds [Buckets].
const MaxBuckets = 10_000

func (b Buckets) perResource() bool { return b == 0 }

// of returns the bucket of a resource. It is part of the stored format.
func (b Buckets) of(resource string) string {
	if b.perResource() {
		return resource
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(resource))
	return fmt.Sprintf("bucket-%d-of-%d", h.Sum64()%uint64(b), int(b))
}

// String writes the number, and what 0 means.
func (b Buckets) String() string {
	if b.perResource() {
		return "0 (one for each resource)"
	}
	return fmt.Sprint(int(b))
}

// withDefaults fills in what is zero and belongs to this package.
func (c Config) withDefaults() Config {
	if c.Serial == 0 {
		c.Serial = gocql.Serial
	}
	if c.Timing.Granularity >= 0 { // a negative one is a fault to report
		c.Timing.Granularity = max(c.Timing.Granularity, granularity)
	}
	c.Timing = c.Timing.WithDefaults()
	return c
}

var keyspaceName = regexp.MustCompile(`^[A-Za-z0-9_]{1,48}$`)

// quote makes an identifier of a checked name, whatever its case.
func quote(name string) string { return `"` + name + `"` }

func checkKeyspace(name string) error {
	if keyspaceName.MatchString(name) {
		return nil
	}
	return ownership.Invalid("Keyspace", fmt.Sprintf("%.60q", name), "must be 1 to 48 letters, digits and underscores", "name the keyspace of the tables")
}

// validateStore reports every fault of what the tables depend on.
func (c Config) validateStore(session *gocql.Session) error {
	var faults []error
	if session == nil {
		faults = append(faults, ownership.Invalid("session", "nil", "must not be nil", "open one with Connect, or pass the Session field of a gocqlx session"))
	}
	return errors.Join(append(faults, c.validateLayout())...)
}

func (c Config) validateLayout() error {
	var faults []error
	if err := checkKeyspace(c.Keyspace); err != nil {
		faults = append(faults, err)
	}
	switch c.Serial {
	case gocql.Serial:
		if c.DataCenter != "" {
			faults = append(faults, ownership.Invalid("DataCenter", fmt.Sprintf("%q", c.DataCenter), "must be empty with Serial SERIAL, by which all data centres decide", "choose gocql.LocalSerial if one should"))
		}
	case gocql.LocalSerial:
		if c.DataCenter == "" {
			faults = append(faults, ownership.Invalid("DataCenter", `""`, "must not be empty with Serial LOCAL_SERIAL", "name the one data centre that decides, the same for every process"))
		}
	default:
		faults = append(faults, ownership.Invalid("Serial", fmt.Sprintf("%#x", uint16(c.Serial)), "must be gocql.Serial or gocql.LocalSerial", ""))
	}
	if c.Buckets < 0 || c.Buckets > MaxBuckets {
		faults = append(faults, ownership.Invalid("Buckets", int(c.Buckets), fmt.Sprintf("must be from 0 to %d", MaxBuckets), "0 gives each resource its own"))
	}
	for dc, n := range c.Replication {
		if dc == "" || n < 1 {
			faults = append(faults, ownership.Invalid("Replication", fmt.Sprintf("%q: %d", dc, n), "must name data centres with at least 1 replica each", "use 3"))
		}
	}
	return errors.Join(faults...)
}

// build makes what New returns, or reports every fault of c. It asks the cluster
// nothing, and leaves nothing running.
func (c Config) build(session *gocql.Session) (*lease.Ownership, error) {
	own, err := lease.New(lease.Config{
		Store: newStore(session, c), Owner: c.Owner, Timing: c.Timing, Hooks: c.Hooks,
		PollEvery: c.PollEvery, AuditEvery: c.AuditEvery, TokenFloor: c.TokenFloor, LockDelay: c.LockDelay,
	})
	return own, errors.Join(c.validateStore(session), errors.Unwrap(err))
}

// New returns an [ownership.Ownership] kept in Cassandra. session is the user's,
// and stays theirs: it must be open until Close of the result has returned. Open
// it with [Connect], or from a configuration that went through [Configure]; that
// of a gocqlx session is its Session field.
//
// New validates cfg, then looks at the tables and asks whether they agree with
// it, and reports all faults at once, of either kind. It changes nothing; see
// [CreateSchema]. [Check] looks closer, at every node.
func New(ctx context.Context, session *gocql.Session, cfg Config) (*lease.Ownership, error) {
	cfg = cfg.withDefaults()
	own, err := cfg.build(session)
	if err != nil {
		return nil, fmt.Errorf("cassandra.New: %w", err)
	}
	if err := verify(ctx, session, cfg); err != nil {
		return nil, fmt.Errorf("cassandra.New: %w", err)
	}
	return own, nil
}
