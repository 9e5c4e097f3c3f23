package storetest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// Harness says how to test one store.
type Harness struct {
	// New returns the store under test. It is called once a test, from within
	// the test's bubble when VirtualTime is set. All may share their data: the
	// tests use fresh names and run one after another.
	New func(t *testing.T) lease.Store
	// Second, if not nil, returns another client of the same data, for races;
	// nil means that the first one serves.
	Second func(t *testing.T, first lease.Store) lease.Store
	// TTL is the time to live that tests wait out several times: short, but a
	// multiple of Limits().WholeTTL and well above a request's time. Default 2 s.
	TTL time.Duration
	// VirtualTime runs each test in a testing/synctest bubble, where waiting
	// costs nothing. It needs a store without sockets.
	VirtualTime bool
}

// Run runs the suite. Tests that need several resources in one bucket are
// skipped when the store gives every resource its own: run it on both rules.
func Run(t *testing.T, h Harness) {
	if h.New == nil {
		t.Fatal("storetest.Harness.New must be set")
	}
	if h.TTL == 0 {
		h.TTL = 2 * time.Second
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var skipped string
			test := func(t *testing.T) {
				e := &env{skipped: &skipped, T: t, store: h.New(t), ttl: h.TTL, prefix: "storetest-" + lease.NewID().String()}
				e.second = e.store
				if h.Second != nil {
					e.second = h.Second(t, e.store)
				}
				c.test(e)
			}
			if h.VirtualTime {
				synctest.Test(t, test)
			} else {
				test(t)
			}
			if skipped != "" { // a bubble does not pass it on
				t.Skip(skipped)
			}
		})
	}
}

type testCase struct {
	name string
	test func(*env)
}

var cases = []testCase{
	{"Limits", testLimits},
	{"BucketIsPure", testBucketIsPure},
	{"OpenAndRead", testOpenAndRead},
	{"OpenOnce", testOpenOnce},
	{"ReadAbsentSession", testReadAbsentSession},
	{"BadTTLIsNeverSent", testBadTTL},
	{"Renew", testRenew},
	{"RenewRefused", testRenewRefused},
	{"RenewAcknowledges", testRenewAcknowledges},
	{"RenewRewritesEveryCell", testRenewRewritesEveryCell},
	{"SessionExpires", testSessionExpires},
	{"KillAbsent", testKillAbsent},
	{"KillLivingRefused", testKillLivingRefused},
	{"KillBySeq", testKillBySeq},
	{"KillExpired", testKillExpired},
	{"KillDespiteLeftoverCell", testKillDespiteLeftoverCell},
	{"CertificateOutlivesTTL", testCertificateOutlivesTTL},
	{"KillAgainstLateRenewals", testKillAgainstLateRenewals},
	{"RevokeOnce", testRevokeOnce},
	{"RevokeRefused", testRevokeRefused},
	{"RevocationExpires", testRevocationExpires},
	{"End", testEnd},
	{"ClaimFirst", testClaimFirst},
	{"ClaimStaleFence", testClaimStaleFence},
	{"ClaimTakenRow", testClaimTakenRow},
	{"ClaimOverDeadRow", testClaimOverDeadRow},
	{"ClaimOverAbsentRow", testClaimOverAbsentRow},
	{"ClaimOverFreed", testClaimOverFreed},
	{"ClaimSecondCopy", testClaimSecondCopy},
	{"ClaimFenceOnly", testClaimFenceOnly},
	{"ClaimManyAtomic", testClaimManyAtomic},
	{"ClaimManyMixed", testClaimManyMixed},
	{"ClaimMaxBatch", testClaimMaxBatch},
	{"ClaimRace", testClaimRace},
	{"ReleaseByAttempt", testReleaseByAttempt},
	{"ReleaseLate", testReleaseLate},
	{"ReleaseManyAllOrNothing", testReleaseManyAllOrNothing},
	{"FenceSurvives", testFenceSurvives},
	{"GrantsContent", testGrantsContent},
	{"GrantsFenceFirst", testGrantsFenceFirst},
	{"PeekFollows", testPeekFollows},
	{"OddNames", testOddNames},
	{"EndedContext", testEndedContext},
	{"EmptyInput", testEmptyInput},
}

// env is what one test works with.
type env struct {
	*testing.T
	store  lease.Store
	second lease.Store
	ttl    time.Duration
	prefix string
	names  int

	skipped *string
}

// requestTime bounds one request: far above what any store needs.
const requestTime = 30 * time.Second

func (e *env) ctx() context.Context {
	ctx, cancel := context.WithTimeout(e.Context(), requestTime)
	e.Cleanup(cancel)
	return ctx
}

// name returns a resource that no other test uses.
func (e *env) name() string {
	e.names++
	return fmt.Sprintf("%s-%d", e.prefix, e.names)
}

// neighbours returns n resources of one bucket, or skips the test.
func (e *env) neighbours(n int) (bucket string, resources []string) {
	e.Helper()
	byBucket := make(map[string][]string)
	for i := range 100_000 {
		r := e.name()
		b := e.store.Bucket(r)
		byBucket[b] = append(byBucket[b], r)
		if len(byBucket[b]) == n {
			return b, byBucket[b]
		}
		if i == 2000 && len(byBucket) > 2000 {
			break
		}
	}
	*e.skipped = "not applicable: this store keeps every resource in a bucket of its own"
	e.Skip(*e.skipped)
	return "", nil
}

// eventually polls until cond holds, with a bound that no sound store reaches.
func (e *env) eventually(what string, cond func() bool) {
	e.Helper()
	for deadline := time.Now().Add(3*e.ttl + requestTime); ; time.Sleep(e.ttl / 40) {
		if cond() {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("waited in vain until %s", what)
		}
	}
}

func applied[T any](e *env, what string, r lease.Result[T]) {
	e.Helper()
	if r.Outcome != ownership.Applied {
		e.Fatalf("%s: %v (err %v, current %+v), want applied", what, r.Outcome, r.Err, r.Current)
	}
	if r.Err != nil {
		e.Fatalf("%s: applied, and yet an error: %v", what, r.Err)
	}
}

// refused wants the state as the reason and returns it.
func refused[T any](e *env, what string, r lease.Result[T]) T {
	e.Helper()
	if r.Outcome != ownership.NotApplied || r.Err != nil {
		e.Fatalf("%s: %v (err %v), want a refusal by the current state", what, r.Outcome, r.Err)
	}
	return r.Current
}

// notSent wants a definite "no" that has learned nothing.
func notSent[T any](e *env, what string, r lease.Result[T]) {
	e.Helper()
	if r.Outcome != ownership.NotApplied || r.Err == nil {
		e.Fatalf("%s: %v (err %v), want not applied, with an error", what, r.Outcome, r.Err)
	}
}

// session reads a session, linearizably.
func (e *env) session(id lease.ID) lease.Session {
	e.Helper()
	s, err := e.store.Session(e.ctx(), id)
	if err != nil {
		e.Fatalf("Session(%v): %v", id, err)
	}
	return s
}

// open opens a fresh session under ttl.
func (e *env) open(ttl time.Duration) lease.Session {
	e.Helper()
	s := lease.Session{ID: lease.NewID(), Owner: "worker#" + e.prefix, TTL: ttl}
	applied(e, "Open", e.store.Open(e.ctx(), s))
	return s
}

// next is the session's renewal.
func next(s lease.Session) lease.Session {
	s.Seq++
	return s
}

// wantAlive compares everything a reader must see of a living session.
func (e *env) wantAlive(what string, got, want lease.Session) {
	e.Helper()
	want.Found = true
	if got != want || !got.Alive() {
		e.Fatalf("%s: %+v, want alive %+v", what, got, want)
	}
}

// toldAlive does so for a refusal, which may leave out what nobody decides by.
func (e *env) toldAlive(what string, got, want lease.Session) {
	e.Helper()
	if got.ID.IsZero() {
		got.ID = want.ID
	}
	if got.Owner == "" {
		got.Owner = want.Owner
	}
	if got.TTL == 0 {
		got.TTL = want.TTL
	}
	e.wantAlive(what, got, want)
}

// grants reads rows of the resources' common bucket.
func (e *env) grants(resources ...string) lease.Bucket {
	e.Helper()
	b, err := e.store.Grants(e.ctx(), e.store.Bucket(resources[0]), resources)
	if err != nil {
		e.Fatalf("Grants(%q): %v", resources, err)
	}
	if b.Partial {
		e.Fatalf("Grants(%q) is partial; a read must tell everything", resources)
	}
	return b
}

// row reads one row.
func (e *env) row(resource string) lease.Grant {
	e.Helper()
	g, _ := e.grants(resource).Row(resource)
	return g
}

// claimOf prepares a claim of resources as they are now.
func (e *env) claimOf(resources ...string) lease.Claim {
	e.Helper()
	b := e.grants(resources...)
	c := lease.Claim{
		Bucket: e.store.Bucket(resources[0]), Fence: b.Fence, Next: b.Fence + 1,
		Session: lease.NewID(), Attempt: lease.NewID(), Owner: "worker#" + e.prefix,
	}
	for _, r := range resources {
		g, _ := b.Row(r)
		c.Rows = append(c.Rows, lease.ClaimRow{Resource: r, Found: g.Found, Over: g.Attempt})
	}
	return c
}

// claim claims resources as they are now and returns the claim.
func (e *env) claim(resources ...string) lease.Claim {
	e.Helper()
	c := e.claimOf(resources...)
	applied(e, "Claim", e.store.Claim(e.ctx(), c))
	return c
}

// grantOf is the row that a claim leaves.
func grantOf(c lease.Claim, resource string) lease.Grant {
	return lease.Grant{Resource: resource, Found: true, Token: c.Next, Session: c.Session, Attempt: c.Attempt, Owner: c.Owner}
}

// wantRow checks that the store has exactly what the claim wrote.
func (e *env) wantRow(c lease.Claim, resource string) {
	e.Helper()
	if got, want := e.row(resource), grantOf(c, resource); got != want {
		e.Fatalf("row of %q: %+v, want %+v", resource, got, want)
	}
}

// wantTold checks what a refusal tells, as far as it tells: a store may return
// less than everything, but nothing wrong.
func (e *env) wantTold(what string, b lease.Bucket, fence ownership.Token, rows ...lease.Grant) {
	e.Helper()
	if b.Fence != fence && !(b.Partial && b.Fence == 0) {
		e.Fatalf("%s: the refusal tells fence %d, want %d", what, b.Fence, fence)
	}
	for _, want := range rows {
		if got, known := b.Row(want.Resource); known && got != want {
			e.Fatalf("%s: the refusal tells %+v, want %+v", what, got, want)
		}
	}
}
