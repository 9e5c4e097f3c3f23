package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

func testGrantsContent(e *env) {
	r, absent := e.name(), ""
	bucket := e.store.Bucket(r)
	for range 100_000 {
		if absent = e.name(); e.store.Bucket(absent) == bucket {
			break
		}
		absent = ""
	}
	c := e.claim(r)
	ask := []string{r}
	if absent != "" {
		ask = append(ask, absent)
	}
	b := e.grants(ask...)
	if b.Name != bucket || b.Fence != c.Next {
		e.Fatalf("bucket %q, fence %d; want %q and %d", b.Name, b.Fence, bucket, c.Next)
	}
	if g, known := b.Row(r); !known || g != grantOf(c, r) {
		e.Fatalf("row %+v (known %v), want %+v", g, known, grantOf(c, r))
	}
	if absent != "" {
		if g, known := b.Row(absent); !known || g.Found || !g.Free() {
			e.Fatalf("an absent row reads %+v (known %v)", g, known)
		}
	}
	for k, g := range b.Rows {
		if k != g.Resource {
			e.Fatalf("row %+v under the key %q", g, k)
		}
	}
}

// The fence is read first, then the rows, so a row is never older than the fence
// told with it (DESIGN 5, unknown outcome of a claim).
func testGrantsFenceFirst(e *env) {
	r := e.name()
	last := e.claim(r)
	bucket := last.Bucket
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	for range 2 {
		ctx := e.ctx()
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				b, err := e.second.Grants(ctx, bucket, []string{r})
				if err != nil {
					continue
				}
				if g, _ := b.Row(r); g.Token < b.Fence {
					e.Errorf("a row of token %d was told with fence %d", g.Token, b.Fence)
					return
				}
				time.Sleep(time.Millisecond) // lets a bubble's other goroutines in
			}
		})
	}
	for range 50 {
		c := last
		c.Fence, c.Next, c.Attempt = last.Next, last.Next+1, lease.NewID()
		c.Rows = []lease.ClaimRow{{Resource: r, Found: true, Over: last.Attempt}}
		applied(e, "Claim", e.store.Claim(e.ctx(), c))
		last = c
		time.Sleep(time.Millisecond)
	}
}

func testPeekFollows(e *env) {
	r := e.name()
	c := e.claim(r)
	e.eventually("Peek shows the claim", func() bool {
		b, err := e.second.Peek(e.ctx(), c.Bucket, []string{r})
		g, known := b.Row(r)
		return err == nil && known && g == grantOf(c, r) && b.Fence == c.Next
	})
	applied(e, "Release", e.store.Release(e.ctx(), c.Bucket, []lease.Grant{grantOf(c, r)}))
	e.eventually("Peek shows the release", func() bool {
		b, err := e.second.Peek(e.ctx(), c.Bucket, []string{r})
		g, known := b.Row(r)
		return err == nil && known && g.Free() && b.Fence == c.Next
	})
}

// Every name that ownership.CheckResource and CheckOwner accept is kept as it is.
func testOddNames(e *env) {
	base := e.name()
	long := base + strings.Repeat("ä", (ownership.MaxResource-len(base))/2)
	names := []string{
		base + "/a b", base + "'; DROP TABLE ownership; --", base + `"quoted"`, base + "\n\t\x00", base + "日本🙂", base + "é", base + "e\u0301",
		base + "%s%d?:x", base + "A", base + "a", base + " ", " " + base, base + "\u202e", long,
	}
	rows := make(map[string]lease.Claim)
	for _, r := range names {
		if err := ownership.CheckResource(r); err != nil {
			e.Fatal(err)
		}
		if c := e.claimOf(r); c.Rows[0].Found {
			e.Fatalf("%q is taken for another name", r)
		} else {
			c.Owner = strings.ToValidUTF8(r[:min(len(r), ownership.MaxOwner)], "") + "#nonce"
			applied(e, "Claim", e.store.Claim(e.ctx(), c))
			rows[r] = c
		}
	}
	for r, c := range rows {
		e.wantRow(c, r)
	}
	s := lease.Session{ID: lease.NewID(), Owner: strings.Repeat("ö", ownership.MaxOwner/2) + "#\x00'?", TTL: 5 * e.ttl}
	applied(e, "Open", e.store.Open(e.ctx(), s))
	e.wantAlive("Session", e.session(s.ID), s)
	for r, c := range rows {
		applied(e, "Release", e.store.Release(e.ctx(), c.Bucket, []lease.Grant{grantOf(c, r)}))
		if g := e.row(r); !g.Free() {
			e.Fatalf("released, %q reads %+v", r, g)
		}
	}
}

// A context that has ended before the call: nothing is sent, and the answer says
// so. Unknown here would cost every caller a round trip for nothing.
func testEndedContext(e *env) {
	why := errors.New("the test ended it")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	s := e.open(20 * e.ttl)
	held, r := e.name(), e.name()
	c := e.claim(held)
	fresh := lease.Session{ID: lease.NewID(), Owner: "w", TTL: e.ttl}
	for what, res := range map[string]lease.Result[lease.Session]{
		"Open":   e.store.Open(ctx, fresh),
		"Renew":  e.store.Renew(ctx, next(s), lease.ID{}),
		"Kill":   e.store.Kill(ctx, s.ID, &s.Seq, 0),
		"Revoke": e.store.Revoke(ctx, s.ID, lease.NewID(), e.ttl),
		"End":    e.store.End(ctx, s),
	} {
		notSent(e, what+" under an ended context", res)
		if !errors.Is(res.Err, context.Canceled) && !errors.Is(res.Err, why) {
			e.Errorf("%s: %v does not say why", what, res.Err)
		}
	}
	claim := e.claimOf(r)
	notSent(e, "Claim under an ended context", e.store.Claim(ctx, claim))
	notSent(e, "Release under an ended context", e.store.Release(ctx, c.Bucket, []lease.Grant{grantOf(c, held)}))
	if _, err := e.store.Session(ctx, s.ID); err == nil {
		e.Error("Session under an ended context: no error")
	}
	if _, err := e.store.PeekSession(ctx, s.ID); err == nil {
		e.Error("PeekSession under an ended context: no error")
	}
	if _, err := e.store.Grants(ctx, c.Bucket, []string{held}); err == nil {
		e.Error("Grants under an ended context: no error")
	}
	if _, err := e.store.Peek(ctx, c.Bucket, []string{held}); err == nil {
		e.Error("Peek under an ended context: no error")
	}
	e.wantAlive("Session", e.session(s.ID), s)
	e.wantRow(c, held)
	if g := e.row(r); g.Found {
		e.Fatalf("a claim that was not sent left %+v", g)
	}
	if e.session(fresh.ID).Found {
		e.Fatal("a session that was not sent is open")
	}
}

// Nothing panics on input that has nothing in it, and nothing changes.
func testEmptyInput(e *env) {
	r := e.name()
	c := e.claim(r)
	for _, resources := range [][]string{nil, {}} {
		if b, err := e.store.Grants(e.ctx(), c.Bucket, resources); err != nil || b.Fence != c.Next {
			e.Fatalf("Grants of no rows: fence %d, %v; want %d", b.Fence, err, c.Next)
		}
		if _, err := e.store.Peek(e.ctx(), c.Bucket, resources); err != nil {
			e.Fatalf("Peek of no rows: %v", err)
		}
	}
	for _, grants := range [][]lease.Grant{nil, {}} {
		if res := e.store.Release(e.ctx(), c.Bucket, grants); res.Outcome == ownership.Unknown {
			e.Fatalf("Release of nothing: %v (%v)", res.Outcome, res.Err)
		}
	}
	e.wantRow(c, r)
}
