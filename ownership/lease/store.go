package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// Store is what an authority must be able to do: compare-and-set on two kinds of
// rows, sessions under a time to live and grants under a counter, and a
// linearizable read of either. This package does the rest.
//
// Every change answers in one of three ways, and an implementation that cannot
// tell says unknown. A change may also be applied after its call has returned
// Unknown, for instance when a server worked on it late; never after NotApplied.
// No method retries a change, and all return when ctx ends.
//
// A Store is safe for concurrent use; the caller keeps at most one change in
// flight for each session and each bucket.
type Store interface {
	// Limits are facts about the store, constant while it lives.
	Limits() Limits

	// Bucket returns the name of the bucket that holds the resource's row. It is
	// a pure function, the same in every process that shares the store.
	Bucket(resource string) string

	// Open inserts a session under its TTL if no row of that id exists. The
	// caller never uses one id for two calls.
	Open(ctx context.Context, s Session) Result[Session]

	// Renew replaces the session's row under a new TTL, all cells of it, if seq
	// equals s.Seq-1, it is not dead and Revoked equals acknowledge (the zero ID:
	// no revocation). It clears the revocation.
	Renew(ctx context.Context, s Session, acknowledge ID) Result[Session]

	// Kill writes a death certificate: dead, with seq -1, so that no renewal
	// begun earlier can apply later. expect is the seq that the row must have,
	// nil for a session that is absent or has expired; a living session is
	// killed only by its exact seq. A refusal tells ID, Dead and Wait: the caller
	// judges by them. wait is stored: who meets the certificate
	// lets it pass before claiming. The certificate outlives any request in
	// flight by far (a day).
	Kill(ctx context.Context, id ID, expect *int64, wait time.Duration) Result[Session]

	// Revoke writes a revocation into a living session that has none yet; the
	// owner meets it at the next renewal. The cell expires with the TTL. To the
	// store a revocation is an opaque ID; see [Ownership.Revoke].
	Revoke(ctx context.Context, id ID, revocation ID, ttl time.Duration) Result[Session]

	// End deletes the session if seq equals s.Seq and it is not dead.
	End(ctx context.Context, s Session) Result[Session]

	// Session reads one session, linearizably.
	Session(ctx context.Context, id ID) (Session, error)

	// Claim sets the bucket's fence from c.Fence to c.Next and writes a grant for
	// every one of c.Rows, all in one atomic step, if the fence is c.Fence (0: no
	// fence yet) and each row is as c.Rows says. With no rows it moves the fence
	// only. When not applied, the state is that of the bucket as far as the store
	// returns it: see Bucket.Partial.
	Claim(ctx context.Context, c Claim) Result[Bucket]

	// Release frees all grants named, in one atomic step, if every one of them
	// still has its attempt.
	Release(ctx context.Context, bucket string, grants []Grant) Result[Bucket]

	// Grants reads the rows of some resources of one bucket, linearizably: the
	// fence first, in a read of its own or the same one, then the rows. That
	// order matters: a claim that lands between the two then shows in the rows.
	Grants(ctx context.Context, bucket string, resources []string) (Bucket, error)

	// Peek is a plain read of the same, a hint only: it may be old.
	Peek(ctx context.Context, bucket string, resources []string) (Bucket, error)

	// PeekSession is a plain read of a session, a hint only.
	PeekSession(ctx context.Context, id ID) (Session, error)
}

// Limits are facts about a store.
type Limits struct {
	// Granularity is by how much a TTL can end early: see [ownership.Timing].
	Granularity time.Duration
	// WholeTTL is the unit that every TTL must be a multiple of; 0: any.
	WholeTTL time.Duration
	// MaxBatch is how many rows one Claim or Release may carry; at least 1.
	MaxBatch int
	// KeepsRows: a released row stays as a free marker (Found, zero Attempt)
	// instead of being removed. It spares a claim the look.
	KeepsRows bool
}

// Result is the answer to a change.
type Result[T any] struct {
	Outcome ownership.Outcome
	// Current is the state that refused the change. It is set when Outcome is
	// NotApplied and Err is nil.
	Current T
	// Err says why the outcome is Unknown, or, with NotApplied, why the change
	// cannot have been sent or was rejected unseen, in which case nothing was
	// learned of the state.
	Err error
}

// Applied returns the Result of a change that took effect.
func Applied[T any]() Result[T] { return Result[T]{Outcome: ownership.Applied} }

// Refused returns the Result of a change that the current state forbids.
func Refused[T any](current T) Result[T] {
	return Result[T]{Outcome: ownership.NotApplied, Current: current}
}

// NotSent returns the Result of a change that certainly had no effect, for a
// reason that says nothing about the state.
func NotSent[T any](err error) Result[T] {
	return Result[T]{Outcome: ownership.NotApplied, Err: err}
}

// Unknown returns the Result of a change that may or may not have taken effect,
// or may yet.
func Unknown[T any](err error) Result[T] { return Result[T]{Outcome: ownership.Unknown, Err: err} }

// ID identifies a session or an attempt: a random (version 4) UUID. The zero ID
// is none.
type ID [16]byte

// NewID returns a fresh random ID.
func NewID() ID {
	var id ID
	_, _ = rand.Read(id[:]) // never fails (Go 1.24)
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// IsZero reports whether id is none.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the usual form of a UUID.
func (id ID) String() string {
	s := hex.EncodeToString(id[:])
	return fmt.Sprintf("%s-%s-%s-%s-%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:])
}

// Session is the row that says until when one process is alive.
type Session struct {
	ID    ID
	Owner string
	// Seq counts renewals from 0; it is -1 in a death certificate. Meaningless
	// unless Found.
	Seq int64
	TTL time.Duration
	// Found: the row exists with a live seq. A row that only has other cells left
	// counts as not found.
	Found bool
	// Dead: it was declared dead, and never renews again. Looked at first.
	Dead bool
	// Wait is what its certificate asks claimants to let pass.
	Wait time.Duration
	// Revoked is the revocation that an operator wrote, or zero.
	Revoked ID
}

// Alive reports whether the session may still be renewed.
func (s Session) Alive() bool { return !s.Dead && s.Found && s.Seq >= 0 }

// Grant is the row of one resource: who holds it, if anybody.
type Grant struct {
	Resource string
	// Found: there is a row. A found row with a zero Attempt is free (a marker
	// kept to spare tombstones).
	Found   bool
	Token   ownership.Token
	Session ID
	Attempt ID
	Owner   string
}

// Free reports whether nobody is named as the holder.
func (g Grant) Free() bool { return !g.Found || g.Attempt.IsZero() }

// Bucket is the state of a bucket: its fence and the rows asked for.
type Bucket struct {
	Name  string
	Fence ownership.Token // highest token ever granted in it; 0: none
	Rows  map[string]Grant
	// Partial: the store did not return everything, so a row that is missing
	// here may exist, and a Fence of 0 may be wrong.
	Partial bool
}

// Row returns the resource's row, and whether the bucket tells: with Partial, a
// missing row is not known to be absent.
func (b Bucket) Row(resource string) (Grant, bool) {
	if g, ok := b.Rows[resource]; ok {
		return g, true
	}
	return Grant{Resource: resource}, !b.Partial
}

// Claim is a request to own resources of one bucket under one token.
type Claim struct {
	Bucket  string
	Fence   ownership.Token // as last seen; 0: the bucket has none
	Next    ownership.Token // the token to grant; above Fence
	Session ID
	Attempt ID
	Owner   string
	Rows    []ClaimRow
}

// ClaimRow is one resource of a [Claim].
type ClaimRow struct {
	Resource string
	// Over is the attempt of the row that is replaced: of a dead holder, or zero
	// with Found for a free marker.
	Over ID
	// Found: there is a row to replace; otherwise one is inserted.
	Found bool
}
