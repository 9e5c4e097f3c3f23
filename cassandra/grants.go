package cassandra

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

func (s *store) toBucket(bucket string) route {
	return route{keyspace: s.keyspace, key: []byte(bucket)}
}

// Claim implements [lease.Store].
func (s *store) Claim(ctx context.Context, c lease.Claim) lease.Result[lease.Bucket] {
	stmts, err := s.claim(c)
	if err != nil {
		return lease.NotSent[lease.Bucket](err)
	}
	a, err := change(ctx, s.client, s.toBucket(c.Bucket), (*grantRow).destinations, stmts...)
	return result(a.applied, err, func() lease.Bucket { return refusal(c.Bucket, a) })
}

// claim builds the batch. The fence comes first: gocql routes a batch by its
// first statement.
func (s *store) claim(c lease.Claim) ([]statement, error) {
	fence := values{"bucket": c.Bucket, "next": int64(c.Next), "expected": nil}
	if c.Fence > 0 {
		fence["expected"] = int64(c.Fence)
	}
	stmts := []statement{s.texts.fence.bind(fence)}
	seen := make(map[string]bool, len(c.Rows))
	for _, r := range c.Rows {
		// Two INSERTs IF NOT EXISTS of one row in one batch both pass, and their
		// cells merge.
		if seen[r.Resource] {
			return nil, ownership.Invalid("resource", fmt.Sprintf("%q", r.Resource), "must appear once in a claim", "")
		}
		seen[r.Resource] = true
		v := values{
			"bucket": c.Bucket, "resource": r.Resource, "held": int64(c.Next), "session": gocql.UUID(c.Session),
			"attempt": gocql.UUID(c.Attempt), "owner": c.Owner, "over": gocql.UUID(r.Over),
		}
		switch {
		case !r.Found:
			stmts = append(stmts, s.texts.insert.bind(v))
			continue
		case r.Over == noAttempt:
			v["over"] = nil
		}
		stmts = append(stmts, s.texts.take.bind(v))
	}
	sound := c.Next > c.Fence && c.Fence >= 0 && (len(c.Rows) == 0 || !c.Attempt.IsZero())
	return stmts, checkBatch(sound, len(c.Rows))
}

// checkBatch refuses what would break the table's rules, before it is sent.
func checkBatch(sound bool, rows int) error {
	switch {
	case !sound:
		return ownership.Invalid("claim", "unsound", "must carry an attempt and a token above the fence", "")
	case rows > maxBatch:
		return ownership.Invalid("batch", fmt.Sprintf("%d rows", rows), fmt.Sprintf("must have at most %d", maxBatch), "split it")
	}
	return nil
}

// Release implements [lease.Store].
func (s *store) Release(ctx context.Context, bucket string, grants []lease.Grant) lease.Result[lease.Bucket] {
	if len(grants) == 0 {
		return lease.Applied[lease.Bucket]()
	}
	t := s.texts.freeRow
	if s.buckets.perResource() {
		t = s.texts.deleteRow
	}
	stmts := make([]statement, 0, len(grants))
	for _, g := range grants {
		if g.Attempt.IsZero() { // it would match a row that is free
			return lease.NotSent[lease.Bucket](checkBatch(false, 0))
		}
		stmts = append(stmts, t.bind(values{
			"bucket": bucket, "resource": g.Resource, "expected": gocql.UUID(g.Attempt), "none": gocql.UUID{},
		}))
	}
	if err := checkBatch(true, len(grants)); err != nil {
		return lease.NotSent[lease.Bucket](err)
	}
	a, err := change(ctx, s.client, s.toBucket(bucket), (*grantRow).destinations, stmts...)
	return result(a.applied, err, func() lease.Bucket { return refusal(bucket, a) })
}

// refusal reads what a refused batch returned:
//
//   - every row of the batch that exists, whole, where a condition of the batch
//     names all columns (see tellGrant) or is IF NOT EXISTS
//   - one row without a resource, for the fence, where none of them exists
//   - only the columns of the conditions otherwise
//   - nothing where the partition is absent
//
// Rows that are not whole are left out, and what is not told is Partial.
func refusal(name string, a answer[grantRow]) lease.Bucket {
	b := lease.Bucket{Name: name, Rows: map[string]lease.Grant{}}
	whole := a.columns["resource"] && a.columns["held"] && a.columns["session"] && a.columns["attempt"] && a.columns["owner"]
	b.Partial = !whole || !a.columns["fence"]
	for _, r := range a.rows {
		b.Fence = max(b.Fence, ownership.Token(orZero(r.fence)))
		if whole && r.resource != nil {
			b.Rows[*r.resource] = grantOf(r)
		}
	}
	return b
}

// noAttempt stands for the attempt of a row that exists and has none: this
// package leaves no such row, but somebody's hand may. It is no free marker, so
// the row counts as that of a session that is gone, and can be claimed.
var noAttempt = lease.ID(bytes.Repeat([]byte{0xff}, 16))

func grantOf(r grantRow) lease.Grant {
	g := lease.Grant{
		Resource: orZero(r.resource), Found: true, Token: ownership.Token(orZero(r.held)),
		Session: lease.ID(orZero(r.session)), Attempt: noAttempt, Owner: orZero(r.owner),
	}
	if r.attempt != nil {
		g.Attempt = lease.ID(*r.attempt)
	}
	return g
}

// Grants implements [lease.Store].
func (s *store) Grants(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	return s.readBucket(ctx, bucket, resources, gocql.Consistency(s.serial))
}

// Peek implements [lease.Store]. It reads at the level of the commits, for a
// replica that missed one would tell of a loss that is none.
func (s *store) Peek(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	return s.readBucket(ctx, bucket, resources, s.commit)
}

// readChunk is how many rows one read asks for: they come in one page.
const readChunk = 100

func (s *store) readBucket(ctx context.Context, bucket string, resources []string, level gocql.Consistency) (lease.Bucket, error) {
	b := lease.Bucket{Name: bucket, Rows: map[string]lease.Grant{}}
	fetch := func(stmt statement) error {
		a, err := read(ctx, s.client, s.toBucket(bucket), level, (*grantRow).destinations, stmt)
		for _, r := range a.rows {
			b.Fence = max(b.Fence, ownership.Token(orZero(r.fence)))
			if r.resource != nil {
				b.Rows[*r.resource] = grantOf(r)
			}
		}
		return explain(err)
	}
	if s.buckets.perResource() { // the bucket has one row: all in one read
		err := fetch(s.texts.bucket.bind(values{"bucket": bucket}))
		return b, err
	}
	// The fence in a read of its own, for the rows bring it only if one of them
	// exists; and first, so that a claim which lands in between shows in the rows.
	err := fetch(s.texts.bucketFence.bind(values{"bucket": bucket}))
	for chunk := range slices.Chunk(resources, readChunk) {
		if err != nil {
			break
		}
		err = fetch(s.texts.bucketRows.bind(values{"bucket": bucket, "resource": chunk}))
	}
	return b, err
}
