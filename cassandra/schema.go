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

// schemaTimeout bounds one statement that changes the schema.
const schemaTimeout = 30 * time.Second

// gcGrace of the session table: above the life of any ordinary session, so that
// a deletion is not forgotten before what it deletes has expired by itself.
const gcGrace = time.Hour

// CreateSchema creates the tables, and the keyspace too if cfg.Replication says
// how, and stores what all processes must agree on: Serial, DataCenter, Buckets
// and the format version. Of cfg it looks at these, Keyspace and TokenFloor. What is there
// already is left as it is; if it does not agree with cfg, that is an error, as
// it would be of [New].
//
// A tenure_ownership that is gone from a keyspace that was set up before is not
// created again, for its tokens would start from 1, unless cfg.TokenFloor says
// above which they go on.
//
// It can be called again, and by many processes at once: with sessions from
// [Connect] all of them send their changes through one node, which puts them in
// order. It needs every node up: gocql waits a minute for each change otherwise.
func CreateSchema(ctx context.Context, session *gocql.Session, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validateStore(session); err != nil {
		return fmt.Errorf("cassandra.CreateSchema: %w", err)
	}
	a := newAdmin(session, cfg)
	if err := a.create(ctx); err != nil {
		return fmt.Errorf("cassandra.CreateSchema: %w", err)
	}
	return nil
}

// admin looks at the schema and changes it.
type admin struct {
	*client
	cfg     Config
	timeout time.Duration // of one try of a read
}

func newAdmin(session *gocql.Session, cfg Config) *admin {
	return &admin{client: newClient(session, cfg.Serial), cfg: cfg, timeout: cfg.Timing.RequestTimeout}
}

// tries is how often a read is sent before its failure counts. With our host
// policy each goes to another node.
const tries = 3

// ask sends a read until it is answered.
func ask[R any](ctx context.Context, a *admin, r route, level gocql.Consistency, to destinations[R], s statement) (ans answer[R], err error) {
	for range tries {
		try, cancel := context.WithTimeout(ctx, a.timeout)
		ans, err = read(try, a.client, r, level, to, s)
		cancel()
		if err == nil || ctx.Err() != nil || blameFor(err) == innocent && !errors.Is(err, gocql.ErrNoConnections) {
			break
		}
	}
	return ans, explain(err)
}

// create makes what is missing.
func (a *admin) create(ctx context.Context) error {
	s, err := a.look(ctx)
	if err != nil {
		return err
	}
	var ddl []string
	if !s.keyspace.found {
		if len(a.cfg.Replication) == 0 {
			return ownership.Invalid("keyspace "+a.cfg.Keyspace, "missing", "must exist, or Replication must say how to create it", "set Replication, by data centre")
		}
		if err := a.checkReplication(s.nodes); err != nil {
			return err
		}
		s.keyspace = a.cfg.keyspaceToBe()
		ddl = append(ddl, createKeyspace(a.cfg.Keyspace, a.cfg.Replication))
	}
	var r Report
	if a.checkKeyspace(&r, s); r.Err() != nil {
		return r.Err() // before anything is half done
	}
	if err := a.checkTokens(ctx, s); err != nil {
		return err
	}
	for name, create := range createTables(a.cfg.Keyspace, s.oldest()) {
		if _, ok := s.tables[name]; !ok {
			ddl = append(ddl, create)
		}
	}
	slices.SortFunc(ddl, func(x, y string) int { return strings.Compare(x, y) }) // KEYSPACE before TABLE
	for _, cql := range ddl {
		if err := a.execute(ctx, cql); err != nil {
			return err
		}
	}
	if len(ddl) > 0 {
		_, err := guard(ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, a.session.AwaitSchemaAgreement(ctx)
		})
		if err != nil {
			return fmt.Errorf("waiting for all nodes to agree on the schema: %w; call CreateSchema again when they are up", explain(err))
		}
	}
	if err := a.storeMeta(ctx); err != nil {
		return err
	}
	return a.verify(ctx)
}

// checkReplication compares Replication with the nodes that there are: the server
// takes a factor above their number, and no statement at ALL can then succeed.
func (a *admin) checkReplication(nodes []Node) error {
	in := map[string]int{}
	for _, n := range nodes {
		in[n.DataCenter]++
	}
	var faults []error
	for _, dc := range slices.Sorted(maps.Keys(a.cfg.Replication)) {
		switch n := a.cfg.Replication[dc]; {
		case len(nodes) == 0 || n <= in[dc]: // none: they are not known
		case in[dc] == 0:
			faults = append(faults, ownership.Invalid("Replication", fmt.Sprintf("%q: %d", dc, n), "must name data centres that have nodes",
				"there are "+strings.Join(slices.Sorted(maps.Keys(in)), ", ")))
		default:
			faults = append(faults, ownership.Invalid("Replication", fmt.Sprintf("%q: %d", dc, n),
				fmt.Sprintf("must be at most %d, the number of nodes there", in[dc]), "lower it, or add nodes first"))
		}
	}
	return errors.Join(faults...)
}

// checkTokens refuses to begin anew where tokens have been granted. The meta row
// is written after all tables were made, so who finds the row and no
// tenure_ownership looks once more: another process may have made both between.
func (a *admin) checkTokens(ctx context.Context, s seen) error {
	_, meta := s.tables[MetaTable]
	_, owned := s.tables[OwnershipTable]
	if !meta || owned || a.cfg.TokenFloor > 0 {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	_, err := a.readMeta(wait)
	for pace := (pace{}); isMissing(err) && pace.wait(wait) == nil; { // listed, and not opened yet: it is just being made
		_, err = a.readMeta(wait)
	}
	switch {
	case errors.Is(err, errNoAgreement):
		return nil // CreateSchema has not got that far
	case err != nil:
		return err
	}
	if _, found, err := a.lookTable(ctx, a.cfg.Keyspace, OwnershipTable, s.oldest()); err != nil || found {
		return err
	}
	return Finding{Severity: Error, Subject: fmt.Sprintf("table %s.%s", a.cfg.Keyspace, OwnershipTable),
		Problem:     "it does not exist, though the keyspace was set up before",
		Consequence: "its tokens are lost and would start again from 1",
		Remedy:      "set TokenFloor above the highest token of any fenced table, or restore it"}
}

// execute sends a statement that changes the schema. All of them go the same way,
// whoever sends them, so that one node orders them: two nodes that create one
// table at the same time give it two ids.
func (a *admin) execute(ctx context.Context, cql string) error {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	_, err := send(ctx, route{}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, a.session.Query(cql).WithContext(ctx).RetryPolicy(nil).Consistency(gocql.Quorum).Exec()
	})
	if err != nil {
		verb, _, _ := strings.Cut(cql, "(")
		return fmt.Errorf("%s: %w", strings.TrimSpace(verb), explain(err))
	}
	return nil
}

func createKeyspace(name string, replication map[string]int) string {
	var dcs []string
	for dc, n := range replication {
		dcs = append(dcs, fmt.Sprintf("%s: %d", literal(dc), n))
	}
	slices.Sort(dcs)
	return fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'NetworkTopologyStrategy', %s} AND durable_writes = true",
		quote(name), strings.Join(dcs, ", "))
}

// keyspaceToBe describes the keyspace that Replication asks for.
func (c Config) keyspaceToBe() keyspaceInfo {
	k := keyspaceInfo{found: true, durable: true, replication: map[string]string{"class": "NetworkTopologyStrategy"}}
	for dc, n := range c.Replication {
		k.replication[dc] = strconv.Itoa(n)
	}
	return k
}

// literal quotes a CQL string.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// createTables returns the CREATE TABLE statements by table name, for a cluster
// whose oldest node has the given version.
func createTables(keyspace string, oldest version) map[string]string {
	compaction := "{'class': 'LeveledCompactionStrategy'}"
	if oldest.atLeast(5, 0) {
		compaction = "{'class': 'UnifiedCompactionStrategy'}"
	}
	// Spelled out where it is also the default: another default may be set some day.
	options := strings.Join([]string{
		"default_time_to_live = 0",
		"caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}",
		"speculative_retry = '99p'",
		"read_repair = 'BLOCKING'",
		"compaction = " + compaction,
	}, " AND ")
	create := func(table, columns, more string) string {
		return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s (%s) WITH %s%s", quote(keyspace), table, columns, options, more)
	}
	return map[string]string{
		SessionTable: create(SessionTable,
			"id uuid PRIMARY KEY, owner text, seq bigint, ttl int, dead boolean, revoked uuid",
			fmt.Sprintf(" AND gc_grace_seconds = %d AND comment = 'Tenure: live processes, under a TTL'", int(gcGrace/time.Second))),
		// The default ten days of grace: a tombstone that is purged before a repair
		// revives a released row.
		OwnershipTable: create(OwnershipTable,
			"bucket text, resource text, fence bigint STATIC, held bigint, session uuid, attempt uuid, owner text, PRIMARY KEY (bucket, resource)",
			" AND comment = 'Tenure: who owns what. Never TRUNCATE it or delete a partition: tokens would start again'"),
		MetaTable: create(MetaTable,
			"id text PRIMARY KEY, format int, buckets int, serial text, datacenter text",
			" AND comment = 'Tenure: what all processes agree on'"),
	}
}
