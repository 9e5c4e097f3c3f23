package memory

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/tenure-go/tenure/internal/clock"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/lease/storetest/faults"
)

// certificateTTL is how long a death certificate outlives any request in flight.
const certificateTTL = 24 * time.Hour

// StoreOptions say how a [Store] behaves. The zero value is fine.
type StoreOptions struct {
	// Buckets is the bucket rule: 0 gives every resource a bucket, and so a
	// count of tokens, of its own, and a release deletes its row; n > 0 spreads
	// all resources over n buckets by hash, and a release leaves a free marker.
	Buckets int
	// MaxBatch is Limits().MaxBatch; 0 means 250.
	MaxBatch int
	// Sparse makes a refused Claim or Release return no state at all (see
	// [lease.Bucket].Partial), as some stores do.
	Sparse bool
	// Clock is for this module's own tests; leave it zero. Under testing/synctest
	// the zero value follows the bubble.
	Clock clock.Clock
}

// Store is a [lease.Store] in this process: one client's view of data that is
// shared by all views made with [Store.Client]. It is as strict as a real
// server: a TTL ends to the nanosecond, a refusal changes nothing, and a request
// under an ended context is not sent. Each view takes faults of its own (package
// faults: Inject, Cut, Heal, Observe, Deliver, Counts).
//
// It holds no goroutine and needs no Close.
type Store struct {
	*faults.Store
	data *data
}

// data is what all views share. Reads and changes are atomic under mu.
type data struct {
	opts  StoreOptions
	clock clock.Clock

	mu       sync.Mutex
	sessions map[lease.ID]*sessionRow
	buckets  map[string]*bucketRow
}

// sessionRow is a row whose cells expire one by one, as in a wide-column store.
type sessionRow struct {
	lease.Session
	until   time.Time // of seq, ttl, owner, dead and wait
	revoked time.Time // of Revoked
}

type bucketRow struct {
	fence ownership.Token
	rows  map[string]lease.Grant
}

// NewStore returns an empty store, seen by a client without a name. Negative
// options count as 0.
func NewStore(opts StoreOptions) *Store {
	if opts.MaxBatch <= 0 {
		opts.MaxBatch = 250
	}
	if !opts.Clock.Valid() {
		opts.Clock = clock.System()
	}
	d := &data{
		opts: opts, clock: opts.Clock,
		sessions: make(map[lease.ID]*sessionRow),
		buckets:  make(map[string]*bucketRow),
	}
	return &Store{Store: faults.Wrap("", d), data: d}
}

// Client returns a further view of the same data, with faults and counts of its
// own: what another process, or another connection, would see.
func (s *Store) Client(name string) *Store {
	return &Store{Store: faults.Wrap(name, s.data), data: s.data}
}

var _ lease.Store = (*data)(nil)

func (d *data) Limits() lease.Limits {
	return lease.Limits{MaxBatch: d.opts.MaxBatch, KeepsRows: d.opts.Buckets > 0}
}

func (d *data) Bucket(resource string) string {
	if d.opts.Buckets <= 0 {
		return resource
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(resource)) // never fails
	return fmt.Sprintf("bucket-%d", h.Sum32()%uint32(d.opts.Buckets))
}

// row returns the row with its lapsed cells removed, or nil. The caller holds mu.
func (d *data) row(id lease.ID) *sessionRow {
	r := d.sessions[id]
	if r == nil {
		return nil
	}
	now := d.clock.Now()
	if !now.Before(r.revoked) {
		r.Revoked = lease.ID{}
	}
	if r.Found && !now.Before(r.until) {
		r.Session = lease.Session{ID: id, Revoked: r.Revoked}
	}
	if !r.Found && r.Revoked.IsZero() {
		delete(d.sessions, id)
		return nil
	}
	return r
}

// session is what a reader sees. The caller holds mu.
func (d *data) session(id lease.ID) lease.Session {
	if r := d.row(id); r != nil {
		return r.Session
	}
	return lease.Session{ID: id}
}

// put writes all cells but the revocation. The caller holds mu.
func (d *data) put(s lease.Session, ttl time.Duration) *sessionRow {
	r := d.sessions[s.ID]
	if r == nil {
		r = new(sessionRow)
		d.sessions[s.ID] = r
	}
	s.Found = true
	s.Revoked = r.Revoked
	r.Session, r.until = s, d.clock.Now().Add(ttl)
	return r
}

func (d *data) Open(ctx context.Context, n lease.Session) lease.Result[lease.Session] {
	return change(ctx, d, func() lease.Result[lease.Session] {
		if n.TTL <= 0 {
			return lease.NotSent[lease.Session](invalidTTL(n.TTL))
		}
		if d.row(n.ID) != nil { // any cell will do
			return lease.Refused(d.session(n.ID))
		}
		d.put(lease.Session{ID: n.ID, Owner: n.Owner, Seq: n.Seq, TTL: n.TTL}, n.TTL)
		return lease.Applied[lease.Session]()
	})
}

func (d *data) Renew(ctx context.Context, n lease.Session, acknowledge lease.ID) lease.Result[lease.Session] {
	return change(ctx, d, func() lease.Result[lease.Session] {
		if n.TTL <= 0 {
			return lease.NotSent[lease.Session](invalidTTL(n.TTL))
		}
		if c := d.session(n.ID); !c.Alive() || c.Seq != n.Seq-1 || c.Revoked != acknowledge {
			return lease.Refused(c)
		}
		r := d.put(lease.Session{ID: n.ID, Owner: n.Owner, Seq: n.Seq, TTL: n.TTL}, n.TTL)
		r.Revoked = lease.ID{}
		return lease.Applied[lease.Session]()
	})
}

func (d *data) Kill(ctx context.Context, id lease.ID, expect *int64, wait time.Duration) lease.Result[lease.Session] {
	return change(ctx, d, func() lease.Result[lease.Session] {
		c := d.session(id)
		if c.Dead || c.Found != (expect != nil) || expect != nil && c.Seq != *expect {
			return lease.Refused(c)
		}
		d.put(lease.Session{ID: id, Owner: c.Owner, Seq: -1, TTL: c.TTL, Dead: true, Wait: wait}, certificateTTL)
		return lease.Applied[lease.Session]()
	})
}

func (d *data) Revoke(ctx context.Context, id, attempt lease.ID, ttl time.Duration) lease.Result[lease.Session] {
	return change(ctx, d, func() lease.Result[lease.Session] {
		if ttl <= 0 {
			return lease.NotSent[lease.Session](invalidTTL(ttl))
		}
		if c := d.session(id); !c.Alive() || !c.Revoked.IsZero() {
			return lease.Refused(c)
		}
		r := d.row(id)
		r.Revoked, r.revoked = attempt, d.clock.Now().Add(ttl)
		return lease.Applied[lease.Session]()
	})
}

func (d *data) End(ctx context.Context, n lease.Session) lease.Result[lease.Session] {
	return change(ctx, d, func() lease.Result[lease.Session] {
		if c := d.session(n.ID); !c.Alive() || c.Seq != n.Seq {
			return lease.Refused(c)
		}
		delete(d.sessions, n.ID)
		return lease.Applied[lease.Session]()
	})
}

func (d *data) Session(ctx context.Context, id lease.ID) (lease.Session, error) {
	return read(ctx, d, func() lease.Session { return d.session(id) })
}

func (d *data) PeekSession(ctx context.Context, id lease.ID) (lease.Session, error) {
	return d.Session(ctx, id)
}

// bucket is the state of some rows of a bucket. The caller holds mu.
func (d *data) bucket(name string, resources []string) lease.Bucket {
	b := lease.Bucket{Name: name, Rows: make(map[string]lease.Grant)}
	if r := d.buckets[name]; r != nil {
		b.Fence = r.fence
		for _, resource := range resources {
			if g, ok := r.rows[resource]; ok {
				b.Rows[resource] = g
			}
		}
	}
	return b
}

func (d *data) refuse(name string, resources []string) lease.Result[lease.Bucket] {
	if d.opts.Sparse {
		return lease.Refused(lease.Bucket{Name: name, Partial: true})
	}
	return lease.Refused(d.bucket(name, resources))
}

// checkRows refuses what a server could not express as one atomic step.
func (d *data) checkRows(bucket string, resources []string) error {
	if len(resources) > d.opts.MaxBatch {
		return ownership.Invalid("resources", len(resources), fmt.Sprintf("must be at most %d in one batch", d.opts.MaxBatch), "split them")
	}
	for i, r := range resources {
		if d.Bucket(r) != bucket {
			return ownership.Invalid("bucket", bucket, fmt.Sprintf("must be %s for resource %q", d.Bucket(r), r), "ask Bucket")
		}
		if slices.Contains(resources[:i], r) {
			return ownership.Invalid("resources", fmt.Sprintf("%q", r), "must be named once in a batch", "")
		}
	}
	return nil
}

func (d *data) Claim(ctx context.Context, c lease.Claim) lease.Result[lease.Bucket] {
	resources := make([]string, len(c.Rows))
	for i, r := range c.Rows {
		resources[i] = r.Resource
	}
	return change(ctx, d, func() lease.Result[lease.Bucket] {
		if err := d.checkRows(c.Bucket, resources); err != nil {
			return lease.NotSent[lease.Bucket](err)
		}
		if c.Next <= c.Fence || c.Attempt.IsZero() && len(c.Rows) > 0 {
			return lease.NotSent[lease.Bucket](ownership.Invalid("Claim", fmt.Sprintf("fence %d → %d, attempt %v", c.Fence, c.Next, c.Attempt),
				"must raise the fence, and name its attempt if it has rows", ""))
		}
		now := d.bucket(c.Bucket, resources)
		if now.Fence != c.Fence {
			return d.refuse(c.Bucket, resources)
		}
		for _, r := range c.Rows {
			if g, ok := now.Rows[r.Resource]; ok != r.Found || ok && g.Attempt != r.Over {
				return d.refuse(c.Bucket, resources)
			}
		}
		b := d.buckets[c.Bucket]
		if b == nil {
			b = &bucketRow{rows: make(map[string]lease.Grant)}
			d.buckets[c.Bucket] = b
		}
		b.fence = c.Next
		for _, r := range resources {
			b.rows[r] = lease.Grant{Resource: r, Found: true, Token: c.Next, Session: c.Session, Attempt: c.Attempt, Owner: c.Owner}
		}
		return lease.Applied[lease.Bucket]()
	})
}

func (d *data) Release(ctx context.Context, bucket string, grants []lease.Grant) lease.Result[lease.Bucket] {
	resources := make([]string, len(grants))
	for i, g := range grants {
		resources[i] = g.Resource
	}
	return change(ctx, d, func() lease.Result[lease.Bucket] {
		if err := d.checkRows(bucket, resources); err != nil {
			return lease.NotSent[lease.Bucket](err)
		}
		now := d.bucket(bucket, resources)
		for _, g := range grants {
			if r, ok := now.Rows[g.Resource]; !ok || r.Attempt != g.Attempt || g.Attempt.IsZero() {
				return d.refuse(bucket, resources)
			}
		}
		for _, r := range resources {
			if d.opts.Buckets > 0 {
				d.buckets[bucket].rows[r] = lease.Grant{Resource: r, Found: true}
			} else {
				delete(d.buckets[bucket].rows, r)
			}
		}
		return lease.Applied[lease.Bucket]()
	})
}

func (d *data) Grants(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	return read(ctx, d, func() lease.Bucket { return d.bucket(bucket, resources) })
}

func (d *data) Peek(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	return d.Grants(ctx, bucket, resources)
}

// change makes one atomic step of apply.
func change[T any](ctx context.Context, d *data, apply func() lease.Result[T]) lease.Result[T] {
	if ctx.Err() != nil {
		return lease.NotSent[T](context.Cause(ctx))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return apply()
}

func read[T any](ctx context.Context, d *data, look func() T) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return look(), nil
}

func invalidTTL(ttl time.Duration) error {
	return ownership.Invalid("TTL", ttl, "must be positive", "0 would mean for ever")
}
