package cassandra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
)

// Severity says what a [Finding] means.
type Severity uint8

const (
	// Warning: ownership works, with the consequence named.
	Warning Severity = iota + 1
	// Error: it does not work, or is not safe. [New] refuses it, as far as it
	// looks.
	Error
)

// String returns "warning" or "error".
func (s Severity) String() string {
	switch s {
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return fmt.Sprintf("Severity(%d)", uint8(s))
}

// Finding is one thing that is wrong.
type Finding struct {
	// Severity is Warning or Error.
	Severity Severity
	// Subject is what it is about: a node, a keyspace, a table, a field of Config.
	Subject string
	// Problem is what was found, for people.
	Problem string
	// Consequence is what follows from it, for people.
	Consequence string
	// Remedy is what to do, for people.
	Remedy string
}

// Error makes a finding an error; see [Report.Err].
func (f Finding) Error() string {
	return fmt.Sprintf("%s: %s; %s; %s", f.Subject, f.Problem, f.Consequence, f.Remedy)
}

// Is makes errors.Is(err, [ownership.ErrInvalid]) true: trying again does not help.
func (f Finding) Is(target error) bool { return target == ownership.ErrInvalid }

// Node is one server, as it told of itself.
type Node struct {
	// ID is its host id, a UUID.
	ID string
	// Address is what it tells other nodes, without a port.
	Address string
	// DataCenter is the one that it is in.
	DataCenter string
	// Version is its release, as 5.0.6.
	Version string
	// Settings are those of system_views.settings that matter here; nil where the
	// node was not reached.
	Settings map[string]string

	clock interval
}

// Report is the result of [Check].
type Report struct {
	// Nodes are all that the cluster knows of, by address.
	Nodes []Node
	// Findings are what is wrong, errors first.
	Findings []Finding
	// Unchecked says what could not be looked at, and why.
	Unchecked []string
}

// Err joins the findings that are errors, each a [Finding] for errors.As, or
// returns nil.
func (r Report) Err() error {
	var errs []error
	for _, f := range r.Findings {
		if f.Severity == Error {
			errs = append(errs, f)
		}
	}
	return errors.Join(errs...)
}

// String writes one line for each finding and each thing that was not checked.
func (r Report) String() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s\n", f.Severity, f.Error())
	}
	for _, u := range r.Unchecked {
		fmt.Fprintln(&b, "not checked: "+u)
	}
	switch {
	case b.Len() > 0:
	case len(r.Nodes) == 0:
		return "nothing was checked\n"
	default:
		return counted(len(r.Nodes), "node") + ", nothing to complain about\n"
	}
	return b.String()
}

func (r *Report) add(s Severity, subject, problem, consequence, remedy string) {
	r.Findings = append(r.Findings, Finding{Severity: s, Subject: subject, Problem: problem, Consequence: consequence, Remedy: remedy})
}

// Check looks at the whole cluster as cfg would use it: versions and settings of
// every node, clocks, replication, tables, and what the tables were created with.
// It changes nothing, and needs SELECT on the keyspace; system tables are open to
// every user. Of cfg it looks at everything but Owner and Hooks.
//
// The error is one of cfg, or of the connection; what is wrong with the cluster
// is in the report. A single node is asked by its own connection, which needs a
// session from [Connect] or [Configure]; with another, Check asks often enough to
// reach most nodes, and names the rest in Unchecked.
func Check(ctx context.Context, session *gocql.Session, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	whole := cfg
	whole.Owner = "check" // ours need not be set yet
	if _, err := whole.build(session); err != nil {
		return Report{}, fmt.Errorf("cassandra.Check: %w", err)
	}
	a := newAdmin(session, cfg)
	r, err := a.report(ctx)
	if err != nil {
		return r, fmt.Errorf("cassandra.Check: %w", err)
	}
	a.checkNodes(ctx, &r)
	slices.SortStableFunc(r.Findings, func(x, y Finding) int { return int(y.Severity) - int(x.Severity) })
	return r, nil
}

// verify is the part of Check that New does: all errors of the schema at once.
func verify(ctx context.Context, session *gocql.Session, cfg Config) error {
	return newAdmin(session, cfg).verify(ctx)
}

func (a *admin) verify(ctx context.Context) error {
	r, err := a.report(ctx)
	return errors.Join(err, r.Err())
}

// report checks what can be seen from any node.
func (a *admin) report(ctx context.Context) (Report, error) {
	s, err := a.look(ctx)
	r := Report{Nodes: s.nodes}
	if err != nil {
		return r, err
	}
	a.checkPolicy(&r, a.policy(ctx))
	if v := s.oldest(); !v.atLeast(4, 0) {
		r.add(Error, "cluster", fmt.Sprintf("there is a node of version %d.%d", v.major, v.minor),
			"SERIAL reads and refused writes are not linearizable before 4.0, so two owners could hold one resource", "upgrade every node to 4.1 or later")
	}
	if !s.keyspace.found {
		r.add(Error, "keyspace "+a.cfg.Keyspace, "it does not exist", "there is nowhere to keep ownership", "run CreateSchema with Replication set, or create it")
		return r, nil
	}
	a.checkKeyspace(&r, s)
	complete := true
	for _, name := range []string{SessionTable, OwnershipTable, MetaTable} {
		complete = a.checkTable(&r, s, name) && complete
	}
	if !complete {
		return r, nil
	}
	stored, err := a.readMeta(ctx)
	switch {
	case errors.Is(err, errNoAgreement):
		r.add(Error, "table "+MetaTable, "it is empty", "nothing says what processes must agree on", "run CreateSchema again")
	case err != nil:
		return r, err
	default:
		for _, fault := range flatten(stored.compare(a.cfg)) {
			var i *ownership.InvalidError
			if errors.As(fault, &i) {
				r.add(Error, i.Field, "it is "+i.Value, "it "+i.Rule, i.Remedy)
			}
		}
	}
	return r, nil
}

// flatten lists the errors that errors.Join joined.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// policy returns our host policy if the session has it, or nil. gocql does not
// tell, but ours leaves a note in the context of a query.
func (a *admin) policy(ctx context.Context) *hostPolicy {
	t := &trip{}
	_, _ = guard(context.WithValue(ctx, tripKey{}, t), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, a.session.Query("SELECT key FROM system.local").WithContext(ctx).Exec() // answered or not
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.policy
}

// checkPolicy finds out whether the session went through Configure.
func (a *admin) checkPolicy(r *Report, p *hostPolicy) {
	switch {
	case p == nil && a.cfg.Serial == gocql.LocalSerial:
		r.add(Error, "session", "it was not opened through Connect or Configure", "LOCAL_SERIAL is local to whatever node it picks, so two data centres would decide, each for itself", "open it with Connect")
	case p == nil:
		r.add(Warning, "session", "it was not opened through Connect or Configure",
			"requests race each other over several coordinators, and one frozen node can cost tenures", "open it with Connect")
	case a.cfg.Serial == gocql.LocalSerial && p.dc != a.cfg.DataCenter:
		r.add(Error, "session", fmt.Sprintf("it was configured for data centre %q", p.dc), fmt.Sprintf("DataCenter is %q: the wrong one would decide", a.cfg.DataCenter), "pass the same Config to Connect")
	}
}

// replicas returns the number of full replicas by data centre, or in all under
// the empty name with SimpleStrategy.
func replicas(k keyspaceInfo) (byDC map[string]int, known bool) {
	byDC = map[string]int{}
	class := k.replication["class"]
	count := func(s string) int { // 3, or 3/1 with one transient
		full, transient, _ := strings.Cut(s, "/")
		n, _ := strconv.Atoi(full)
		t, _ := strconv.Atoi(transient)
		return n - t
	}
	switch class[strings.LastIndexByte(class, '.')+1:] {
	case "SimpleStrategy":
		byDC[""] = count(k.replication["replication_factor"])
	case "NetworkTopologyStrategy":
		for dc, n := range k.replication {
			if dc != "class" {
				byDC[dc] = count(n)
			}
		}
	default:
		return byDC, false
	}
	return byDC, true
}

func (a *admin) checkKeyspace(r *Report, s seen) {
	subject := "keyspace " + a.cfg.Keyspace
	if !s.keyspace.durable {
		r.add(Error, subject, "durable_writes is false", "a restarted node forgets tokens, which then start again", "ALTER KEYSPACE … WITH durable_writes = true")
	}
	byDC, known := replicas(s.keyspace)
	if !known {
		r.Unchecked = append(r.Unchecked, "replication of "+subject+": its class is "+s.keyspace.replication["class"])
		return
	}
	deciding, nodes := 0, map[string]int{}
	for _, n := range s.nodes {
		nodes[n.DataCenter]++
		nodes[""]++
	}
	for _, dc := range slices.Sorted(maps.Keys(byDC)) {
		if a.cfg.Serial == gocql.LocalSerial && dc != a.cfg.DataCenter {
			continue // it has no say
		}
		deciding += byDC[dc]
		if n := byDC[dc]; n > 0 && nodes[dc] < n/2+1 {
			r.add(Error, subject, fmt.Sprintf("it asks for %s%s and finds %s", counted(n, "replica"), in(dc), counted(nodes[dc], "node")),
				"no quorum can ever answer", "lower the replication or add nodes")
		}
	}
	_, simple := byDC[""]
	switch {
	case a.cfg.Serial == gocql.LocalSerial && simple:
		r.add(Error, subject, "its replication is SimpleStrategy", "that knows no data centres, and LOCAL_SERIAL needs them", "use NetworkTopologyStrategy")
		return
	case a.cfg.Serial == gocql.LocalSerial && byDC[a.cfg.DataCenter] == 0:
		r.add(Error, subject, fmt.Sprintf("it has no replica in DataCenter %q", a.cfg.DataCenter), "nobody there can decide", "replicate the keyspace there, or choose one of "+strings.Join(slices.Sorted(maps.Keys(byDC)), ", "))
		return
	case a.cfg.Serial == gocql.Serial && len(byDC) > 1:
		r.add(Warning, subject, fmt.Sprintf("%d replicas in %d data centres decide together", deciding, len(byDC)),
			fmt.Sprintf("%d of them must be up, over the distance between the data centres", deciding/2+1), "choose LOCAL_SERIAL and one data centre if its loss may stop ownership")
	}
	switch {
	case deciding == 1 && !a.cfg.AllowSingleReplica:
		r.add(Error, subject, "it has one replica", "a lost disk loses the tokens, which then start again", "use 3, or set AllowSingleReplica for development")
	case deciding == 2:
		r.add(Warning, subject, "it has two replicas", "both must be up: two are no safer than one against an outage", "use 3")
	}
}

// counted writes a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func in(dc string) string {
	if dc == "" {
		return ""
	}
	return " in " + dc
}

// columns of the tables: kind and type.
var columns = map[string]map[string]columnInfo{
	SessionTable: {
		"id": {"partition_key", "uuid"}, "owner": {"regular", "text"}, "seq": {"regular", "bigint"}, "ttl": {"regular", "int"},
		"dead": {"regular", "boolean"}, "revoked": {"regular", "uuid"},
	},
	OwnershipTable: {
		"bucket": {"partition_key", "text"}, "resource": {"clustering", "text"}, "fence": {"static", "bigint"}, "held": {"regular", "bigint"},
		"session": {"regular", "uuid"}, "attempt": {"regular", "uuid"}, "owner": {"regular", "text"},
	},
	MetaTable: {
		"id": {"partition_key", "text"}, "format": {"regular", "int"}, "buckets": {"regular", "int"}, "serial": {"regular", "text"},
		"datacenter": {"regular", "text"},
	},
}

// checkTable reports whether the table can be worked with at all.
func (a *admin) checkTable(r *Report, s seen, name string) bool {
	t, found := s.tables[name]
	subject := fmt.Sprintf("table %s.%s", a.cfg.Keyspace, name)
	if !found {
		r.add(Error, subject, "it does not exist", "there is nowhere to keep ownership", "run CreateSchema")
		return false
	}
	sound := true
	for _, c := range slices.Sorted(maps.Keys(columns[name])) {
		want, got := columns[name][c], t.columns[c]
		switch {
		case got == columnInfo{}:
			r.add(Error, subject, "column "+c+" is missing", "it is not a table of this format", "create it with CreateSchema, in a keyspace of its own if need be")
		case got != want:
			r.add(Error, subject, fmt.Sprintf("column %s is %s %s, not %s %s", c, got.kind, got.cql, want.kind, want.cql),
				"it is not a table of this format", "create it with CreateSchema, in a keyspace of its own if need be")
		default:
			continue
		}
		sound = false
	}
	for _, c := range slices.Sorted(maps.Keys(t.columns)) {
		if _, ok := columns[name][c]; !ok {
			r.add(Warning, subject, "there is a column "+c+" of somebody else", "refused claims return it too", "drop it")
		}
	}
	a.checkOptions(r, subject, name, t)
	return sound
}

func (a *admin) checkOptions(r *Report, subject, name string, t tableInfo) {
	alter := func(option string) string { return "ALTER TABLE … WITH " + option }
	if t.defaultTTL != 0 {
		r.add(Error, subject, fmt.Sprintf("default_time_to_live is %d", t.defaultTTL), "tokens would expire and start again", alter("default_time_to_live = 0"))
	}
	if c := t.compaction["class"]; strings.HasSuffix(c, "TimeWindowCompactionStrategy") {
		r.add(Error, subject, "its compaction is TimeWindowCompactionStrategy", "that drops whole files by age and never merges the cells of a row that is rewritten for ever", alter("compaction = {'class': 'LeveledCompactionStrategy'}"))
	}
	if rows := t.caching["rows_per_partition"]; rows != "NONE" {
		r.add(Warning, subject, "caching keeps "+rows+" rows of a partition", "every change throws the cached rows away again", alter("caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}"))
	}
	if t.repair != "BLOCKING" {
		r.add(Warning, subject, "read_repair is "+t.repair, "plain reads can go back in time, so that watchers and waiters see old holders again", alter("read_repair = 'BLOCKING'"))
	}
	if strings.EqualFold(t.speculative, "NEVER") || strings.EqualFold(t.speculative, "NONE") {
		r.add(Warning, subject, "speculative_retry is off", "one slow replica makes reads slow", alter("speculative_retry = '99p'"))
	}
	grace := time.Duration(t.gcGrace) * time.Second
	switch {
	case name == SessionTable && grace < a.cfg.Timing.TTL:
		r.add(Warning, subject, fmt.Sprintf("gc_grace_seconds is %d, less than Timing.TTL = %v", t.gcGrace, a.cfg.Timing.TTL),
			"an ended session can come back to life for the rest of its TTL, and block its resources", alter(fmt.Sprintf("gc_grace_seconds = %d", int(max(gcGrace, 2*a.cfg.Timing.TTL)/time.Second))))
	case name == OwnershipTable && grace < 24*time.Hour:
		r.add(Warning, subject, fmt.Sprintf("gc_grace_seconds is %d", t.gcGrace), "without a repair within that time a released row can come back, as held by its old owner", alter("gc_grace_seconds = 864000"))
	}
}
