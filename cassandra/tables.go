package cassandra

import (
	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2/qb"
	"github.com/scylladb/gocqlx/v2/table"
)

// Names of the tables, in the keyspace of the configuration.
const (
	SessionTable   = "tenure_session"   // which processes are alive
	OwnershipTable = "tenure_ownership" // who owns what, and the tokens
	MetaTable      = "tenure_meta"      // what all processes agree on
)

// sessionMeta is the liveness of processes: one row each, under a TTL. Its cells
// are written together and expire together. In a death certificate seq is -1,
// dead is true and ttl says how many seconds claimants wait.
var sessionMeta = table.Metadata{
	Name:    SessionTable,
	Columns: []string{"id", "owner", "seq", "ttl", "dead", "revoked"},
	PartKey: []string{"id"},
}

// ownershipMeta is who owns what: a partition a bucket, a row a resource. The
// fence is the highest token granted in the bucket. Nothing here has a TTL, and
// no partition is ever deleted. ("token" is a CQL function, so it is held.)
var ownershipMeta = table.Metadata{
	Name:    OwnershipTable,
	Columns: []string{"bucket", "resource", "fence", "held", "session", "attempt", "owner"},
	PartKey: []string{"bucket"},
	SortKey: []string{"resource"},
}

// schemaMeta is what all processes must agree on: one row.
var schemaMeta = table.Metadata{
	Name:    MetaTable,
	Columns: []string{"id", "format", "buckets", "serial", "datacenter"},
	PartKey: []string{"id"},
}

// Conditions that are always true. The server returns, with a refusal, the
// columns that the conditions name: so these make it return the rest of the row,
// which saves the loser of a race a read.
var (
	tellTTL   = qb.NeLit("ttl", "-1")
	tellGrant = []qb.Cmp{
		qb.NeLit("held", "-1"), // tokens are positive, a free marker has 0
		qb.NeLit("session", "ffffffff-ffff-ffff-ffff-ffffffffffff"), // session ids are random
		qb.NeLit("owner", "'#'"),                                    // names of owners are not empty
	}
)

// texts are the statements of a Store. Conditions are parameters, so that one
// text, prepared once a node, serves both a value and null.
type texts struct {
	open, renew, kill, revoke, end, session template
	fence, insert, take, freeRow, deleteRow template
	bucket, bucketFence, bucketRows         template
}

// qualified returns the table's metadata with its keyspace.
func qualified(keyspace string, m table.Metadata) *table.Table {
	m.Name = quote(keyspace) + "." + m.Name
	return table.New(m)
}

func newTexts(keyspace string) texts {
	session, owned := qualified(keyspace, sessionMeta), qualified(keyspace, ownershipMeta)
	id := qb.Eq("id")
	bucket, row := qb.Eq("bucket"), owned.PrimaryKeyCmp()
	notDead := qb.EqLit("dead", "null")
	return texts{
		open: built(qb.Insert(session.Name()).Columns("id", "owner", "seq", "ttl").Unique().TTLNamed(ttlParam)),
		// All cells, for one that is not rewritten would expire early.
		renew: built(qb.Update(session.Name()).TTLNamed(ttlParam).
			Set("owner", "seq", "ttl").SetLit("revoked", "null").Where(id).
			If(qb.EqNamed("seq", "expected"), notDead, qb.EqNamed("revoked", "acknowledged"), tellTTL)),
		// Not IF NOT EXISTS: a leftover cell under a longer TTL would refuse it. The
		// -1 keeps out a renewal that a coordinator began before the expiry.
		kill: built(qb.Update(session.Name()).TTLNamed(ttlParam).
			SetLit("seq", "-1").SetLit("dead", "true").Set("ttl").Where(id).
			If(qb.EqNamed("seq", "expected"), notDead, tellTTL)),
		revoke: built(qb.Update(session.Name()).TTLNamed(ttlParam).Set("revoked").Where(id).
			If(qb.GtOrEqLit("seq", "0"), notDead, qb.EqLit("revoked", "null"), tellTTL)),
		end:     built(qb.Delete(session.Name()).Where(id).If(qb.EqNamed("seq", "expected"), notDead, tellTTL)),
		session: built(session.SelectBuilder("owner", "seq", "ttl", "dead", "revoked")),

		fence: built(qb.Update(owned.Name()).SetNamed("fence", "next").Where(bucket).If(qb.EqNamed("fence", "expected"))),
		insert: built(qb.Insert(owned.Name()).
			Columns("bucket", "resource", "held", "session", "attempt", "owner").Unique()),
		take: built(qb.Update(owned.Name()).Set("held", "session", "attempt", "owner").Where(row...).
			If(append([]qb.Cmp{qb.EqNamed("attempt", "over")}, tellGrant...)...)),
		// A marker instead of a deletion where a bucket has many rows: tombstones
		// would slow its reads down until the next compaction.
		freeRow: built(qb.Update(owned.Name()).SetLit("held", "0").SetNamed("session", "none").SetNamed("attempt", "none").
			SetLit("owner", "''").Where(row...).If(qb.EqNamed("attempt", "expected"))),
		deleteRow: built(qb.Delete(owned.Name()).Where(row...).If(qb.EqNamed("attempt", "expected"))),

		bucket:      built(qb.Select(owned.Name()).Columns("resource", "fence", "held", "session", "attempt", "owner").Where(bucket)),
		bucketFence: built(qb.Select(owned.Name()).Columns("fence").Where(bucket).Limit(1)),
		bucketRows: built(qb.Select(owned.Name()).Columns("resource", "held", "session", "attempt", "owner").
			Where(bucket, qb.In("resource"))),
	}
}

// sessionRow are the cells of a session; nil is null.
type sessionRow struct {
	owner   *string
	seq     *int64
	ttl     *int
	dead    *bool
	revoked *gocql.UUID
}

func (r *sessionRow) destinations() map[string]any {
	return map[string]any{"owner": &r.owner, "seq": &r.seq, "ttl": &r.ttl, "dead": &r.dead, "revoked": &r.revoked}
}

// grantRow are the cells of a resource's row and its bucket's fence.
type grantRow struct {
	resource         *string
	fence, held      *int64
	session, attempt *gocql.UUID
	owner            *string
}

func (r *grantRow) destinations() map[string]any {
	return map[string]any{"resource": &r.resource, "fence": &r.fence, "held": &r.held, "session": &r.session, "attempt": &r.attempt, "owner": &r.owner}
}

// orZero returns what p points to, or the zero value of a null.
func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
