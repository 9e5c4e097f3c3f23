// Package endtoend_test holds what must be true of ownership on a real Cassandra
// cluster as a whole: through outages, over the wire, at size.
package endtoend_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/integration/cluster"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

func TestMain(m *testing.M) {
	code := cluster.Run(m)
	if demoFolder != "" {
		_ = os.RemoveAll(demoFolder)
	}
	os.Exit(code)
}

// full is set for the long runs; without it suites take the size that fits CI.
var full = os.Getenv("TENURE_SIZE") == "full"

// figure logs a measured value so that the gate's report shows it.
func figure(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf("FIGURE %s: %s", t.Name(), fmt.Sprintf(format, args...))
}

// bed is one keyspace with the tables, on a cluster.
type bed struct {
	cluster *cluster.Cluster
	cfg     cassandra.Config
}

var keyspaces atomic.Int64

// newBed creates a keyspace of its own for the test.
func newBed(t testing.TB, on cluster.Cassandra, change func(*cassandra.Config)) *bed {
	t.Helper()
	c := on.ForTest(t)
	replicas := min(len(c.Addresses()), 3)
	b := &bed{cluster: c, cfg: cassandra.Config{
		Keyspace:           fmt.Sprintf("endtoend_%d_%d", time.Now().Unix(), keyspaces.Add(1)),
		Replication:        map[string]int{"datacenter1": replicas},
		AllowSingleReplica: replicas == 1,
		Owner:              "process",
		Timing:             ownership.Timing{TTL: 5 * time.Second, RequestTimeout: 2 * time.Second},
		PollEvery:          100 * time.Millisecond,
	}}
	if change != nil {
		change(&b.cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	session := b.connect(t, func(cc *gocql.ClusterConfig) { cc.Timeout = time.Minute }) // a busy machine is slow at this
	if err := cassandra.CreateSchema(ctx, session, b.cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

// connect opens a session that ends with the test.
func (b *bed) connect(t testing.TB, change func(*gocql.ClusterConfig)) *gocql.Session {
	t.Helper()
	cc := gocql.NewCluster(b.cluster.Addresses()...)
	cc.Timeout = 10 * time.Second
	cc.ConnectTimeout = 5 * time.Second
	cc.Logger = silent{}
	if user, password := b.cluster.Credentials(); user != "" {
		cc.Authenticator = gocql.PasswordAuthenticator{Username: user, Password: password}
	}
	if change != nil {
		change(cc)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, err := cassandra.Connect(ctx, cc, b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

type silent struct{}

func (silent) Print(...any)          {}
func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// process is one owner with a session of its own to the servers.
type process struct {
	*lease.Ownership
	session *gocql.Session
	wire    *wire
	events  *events
}

// process starts an owner; it is closed with the test unless crash ends it first.
func (b *bed) process(t testing.TB, name string, change func(*cassandra.Config)) *process {
	t.Helper()
	p := &process{wire: &wire{}, events: &events{}}
	p.session = b.connect(t, func(cc *gocql.ClusterConfig) {
		cc.QueryObserver, cc.BatchObserver = p.wire, p.wire
	})
	cfg := b.cfg
	cfg.Owner = name
	cfg.Hooks = ownership.Hooks{p.events}
	if change != nil {
		change(&cfg)
	}
	var err error
	if p.Ownership, err = cassandra.New(t.Context(), p.session, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

// crash takes the process's connections away for good: to the servers it is dead.
func (p *process) crash() { p.session.Close() }

// wire counts statements and remembers who coordinated the last renewal.
type wire struct {
	mu      sync.Mutex
	lwt     map[string]int // by the kind of statement
	reads   int
	renewer string
}

func (w *wire) ObserveQuery(_ context.Context, q gocql.ObservedQuery) {
	w.note(q.Statement, q.Host, q.Err)
}

func (w *wire) ObserveBatch(_ context.Context, b gocql.ObservedBatch) {
	w.note("BATCH "+strings.Join(b.Statements, "; "), b.Host, b.Err)
}

func (w *wire) note(statement string, host *gocql.HostInfo, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	has := func(part string) bool { return strings.Contains(statement, part) }
	kind := "renew"
	switch {
	case !has(" IF "):
		w.reads++
		return
	case has(cassandra.OwnershipTable) && has("SET fence"):
		kind = "claim"
	case has(cassandra.OwnershipTable):
		kind = "release"
	case has("INSERT"):
		kind = "open"
	case has("DELETE"):
		kind = "end"
	case has("dead=true"):
		kind = "kill"
	case has("SET revoked"):
		kind = "revoke"
	}
	if kind == "renew" && host != nil && err == nil {
		w.renewer = host.ConnectAddress().String()
	}
	if w.lwt == nil {
		w.lwt = map[string]int{}
	}
	w.lwt[kind]++
}

// take returns the counts since the last take.
func (w *wire) take() (lwt map[string]int, reads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lwt, reads = w.lwt, w.reads
	w.lwt, w.reads = nil, 0
	if lwt == nil {
		lwt = map[string]int{}
	}
	return lwt, reads
}

func (w *wire) lastRenewer() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.renewer
}

// events counts what happened to a process's tenures.
type events struct {
	mu          sync.Mutex
	transitions map[ownership.State]int
	renewals    map[ownership.Outcome]int
	late        []string // Suspect or Lost later than it should have been
	since       map[*ownership.Tenure]time.Time
}

func (e *events) OnTransition(tr ownership.Transition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.transitions == nil {
		e.transitions, e.since = map[ownership.State]int{}, map[*ownership.Tenure]time.Time{}
	}
	e.transitions[tr.To]++
	e.since[tr.Tenure] = time.Now()
	if tr.To == ownership.Suspect && tr.Remaining < -100*time.Millisecond {
		e.late = append(e.late, fmt.Sprintf("%s suspect %v after its safe deadline", tr.Tenure.Resource(), -tr.Remaining))
	}
}

func (e *events) OnRenewal(r ownership.RenewalEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.renewals == nil {
		e.renewals = map[ownership.Outcome]int{}
	}
	e.renewals[r.Outcome]++
}

func (e *events) count(s ownership.State) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.transitions[s]
}

func (e *events) renewed() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.renewals[ownership.Applied]
}

// until waits for a condition.
func until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("after %v still not: %s", limit, what)
		}
	}
}

// acquire gets a resource or ends the test.
func acquire(t testing.TB, p *process, resource string) *ownership.Tenure {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tn, err := p.Acquire(ctx, resource)
	if err != nil {
		t.Fatal(err)
	}
	return tn
}
