package storetest

import (
	"sync"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

func testClaimFirst(e *env) {
	r := e.name()
	before := e.grants(r)
	if g, _ := before.Row(r); !g.Free() || g.Found {
		e.Fatalf("a resource that was never claimed reads %+v", g)
	}
	c := e.claimOf(r)
	c.Next += 4 // a token may jump: lease.Config.TokenFloor
	applied(e, "Claim", e.store.Claim(e.ctx(), c))
	e.wantRow(c, r)
	if b := e.grants(r); b.Fence != c.Next {
		e.Fatalf("the fence is %d after a claim under %d", b.Fence, c.Next)
	}
}

// DESIGN 8.1: a claim under knowledge of an older fence is refused for good.
func testClaimStaleFence(e *env) {
	r := e.name()
	first := e.claim(r)
	late := e.claimOf(r)
	newer := e.claim(r)
	told := refused(e, "Claim under an old fence", e.store.Claim(e.ctx(), late))
	e.wantTold("Claim under an old fence", told, newer.Next, grantOf(newer, r))
	future := e.claimOf(r)
	future.Fence, future.Next = newer.Next+5, newer.Next+6
	refused(e, "Claim under a fence that is not yet", e.store.Claim(e.ctx(), future))
	fresh := e.claimOf(r)
	fresh.Fence, fresh.Next = 0, first.Next
	refused(e, "Claim as if there were no fence", e.store.Claim(e.ctx(), fresh))
	e.wantRow(newer, r)
	if b := e.grants(r); b.Fence != newer.Next {
		e.Fatalf("refused claims moved the fence from %d to %d", newer.Next, b.Fence)
	}
}

func testClaimTakenRow(e *env) {
	r := e.name()
	c := e.claim(r)
	for what, row := range map[string]lease.ClaimRow{
		"Claim of a row as if it were absent": {Resource: r},
		"Claim over another attempt":          {Resource: r, Found: true, Over: lease.NewID()},
		"Claim over a free marker":            {Resource: r, Found: true},
	} {
		rival := e.claimOf(r)
		rival.Rows = []lease.ClaimRow{row}
		e.wantTold(what, refused(e, what, e.store.Claim(e.ctx(), rival)), c.Next, grantOf(c, r))
		e.wantRow(c, r)
		if b := e.grants(r); b.Fence != c.Next {
			e.Fatalf("%s: refused, it moved the fence from %d to %d", what, c.Next, b.Fence)
		}
	}
}

func testClaimOverDeadRow(e *env) {
	r := e.name()
	dead := e.claim(r)
	c := e.claimOf(r)
	if c.Rows[0].Over != dead.Attempt {
		e.Fatalf("the row tells attempt %v, want %v", c.Rows[0].Over, dead.Attempt)
	}
	c.Owner = "successor#2"
	applied(e, "Claim over a dead holder's row", e.store.Claim(e.ctx(), c))
	e.wantRow(c, r)
}

func testClaimOverAbsentRow(e *env) {
	r := e.name()
	c := e.claimOf(r)
	c.Rows[0] = lease.ClaimRow{Resource: r, Found: true, Over: lease.NewID()}
	refused(e, "Claim over a row that is absent", e.store.Claim(e.ctx(), c))
	if g := e.row(r); g.Found {
		e.Fatalf("the refused claim left %+v", g)
	}
	// A row that UPDATE made would let this pass or fail, by the store's rules.
	e.claim(r)
}

func testClaimOverFreed(e *env) {
	r := e.name()
	old := e.claim(r)
	applied(e, "Release", e.store.Release(e.ctx(), old.Bucket, []lease.Grant{grantOf(old, r)}))
	freed := e.row(r)
	if !freed.Free() || freed.Found != e.store.Limits().KeepsRows {
		e.Fatalf("released, the row is %+v; Limits().KeepsRows is %v", freed, e.store.Limits().KeepsRows)
	}
	wrong := e.claimOf(r)
	wrong.Rows[0] = lease.ClaimRow{Resource: r, Found: true, Over: old.Attempt}
	refused(e, "Claim over the attempt that was released", e.store.Claim(e.ctx(), wrong))
	if freed.Found {
		wrong.Rows[0] = lease.ClaimRow{Resource: r}
		refused(e, "Claim of a free marker as if it were absent", e.store.Claim(e.ctx(), wrong))
	} else {
		wrong.Rows[0] = lease.ClaimRow{Resource: r, Found: true}
		refused(e, "Claim over a free marker that is absent", e.store.Claim(e.ctx(), wrong))
	}
	c := e.claim(r)
	e.wantRow(c, r)
	if c.Next <= old.Next {
		e.Fatalf("token %d after %d", c.Next, old.Next)
	}
}

// DESIGN 5: the second copy of an applied claim is refused, and what refuses it
// names the attempt.
func testClaimSecondCopy(e *env) {
	r := e.name()
	c := e.claim(r)
	e.wantTold("second copy", refused(e, "second copy", e.store.Claim(e.ctx(), c)), c.Next, grantOf(c, r))
	e.wantRow(c, r)
}

// DESIGN 5: moving the fence without a grant settles an unknown claim for good.
func testClaimFenceOnly(e *env) {
	r := e.name()
	late := e.claimOf(r)
	mover := e.claimOf(r)
	mover.Rows = nil
	applied(e, "Claim without rows", e.store.Claim(e.ctx(), mover))
	b := e.grants(r)
	if g, _ := b.Row(r); b.Fence != mover.Next || g.Found {
		e.Fatalf("fence %d, row %+v; want fence %d and no row", b.Fence, g, mover.Next)
	}
	refused(e, "second copy of the move", e.store.Claim(e.ctx(), mover))
	e.wantTold("late claim", refused(e, "late claim", e.store.Claim(e.ctx(), late)), mover.Next)
	if g := e.row(r); g.Found {
		e.Fatalf("the late claim left %+v", g)
	}
	c := e.claim(r)
	mover = e.claimOf(r)
	mover.Rows = nil
	applied(e, "Claim without rows beside a grant", e.store.Claim(e.ctx(), mover))
	e.wantRow(c, r)
}

func testClaimManyAtomic(e *env) {
	_, rs := e.neighbours(4)
	all := e.claimOf(rs[:3]...)
	applied(e, "Claim of three", e.store.Claim(e.ctx(), all))
	for _, r := range rs[:3] {
		e.wantRow(all, r)
	}
	// One of two is taken: nothing changes, whichever comes first.
	for _, order := range [][]string{{rs[3], rs[1]}, {rs[1], rs[3]}} {
		c := e.claimOf(order...)
		for i := range c.Rows {
			c.Rows[i] = lease.ClaimRow{Resource: order[i]}
		}
		e.wantTold("Claim of a free and a taken one", refused(e, "Claim of a free and a taken one", e.store.Claim(e.ctx(), c)),
			all.Next, grantOf(all, rs[1]), lease.Grant{Resource: rs[3]})
		if b := e.grants(rs...); b.Fence != all.Next {
			e.Fatalf("refused, it moved the fence from %d to %d", all.Next, b.Fence)
		}
		if g := e.row(rs[3]); g.Found {
			e.Fatalf("refused, it left %+v", g)
		}
	}
}

func testClaimManyMixed(e *env) {
	_, rs := e.neighbours(4)
	dead := e.claim(rs[0])
	freed := e.claim(rs[1])
	applied(e, "Release", e.store.Release(e.ctx(), freed.Bucket, []lease.Grant{grantOf(freed, rs[1])}))
	other := e.claim(rs[3])
	c := e.claimOf(rs[:3]...) // over a dead one's, over a free one, and a new one
	if c.Rows[0].Over != dead.Attempt {
		e.Fatalf("row %+v, want over %v", c.Rows[0], dead.Attempt)
	}
	applied(e, "Claim", e.store.Claim(e.ctx(), c))
	for _, r := range rs[:3] {
		e.wantRow(c, r)
	}
	e.wantRow(other, rs[3])
}

func testClaimMaxBatch(e *env) {
	n := e.store.Limits().MaxBatch
	_, rs := e.neighbours(n)
	c := e.claim(rs...)
	b := e.grants(rs...)
	var grants []lease.Grant
	for _, r := range rs {
		if got, want := b.Rows[r], grantOf(c, r); got != want {
			e.Fatalf("row of %q: %+v, want %+v", r, got, want)
		}
		grants = append(grants, grantOf(c, r))
	}
	applied(e, "Release", e.store.Release(e.ctx(), c.Bucket, grants))
	b = e.grants(rs...)
	for _, r := range rs {
		if g, _ := b.Row(r); !g.Free() {
			e.Fatalf("released, the row of %q is %+v", r, g)
		}
	}
	if b.Fence != c.Next {
		e.Fatalf("the fence is %d after the release, want %d", b.Fence, c.Next)
	}
}

// DESIGN 5: of claims that race from the same knowledge exactly one is granted.
func testClaimRace(e *env) {
	r := e.name()
	const rivals = 4
	for range 3 {
		base := e.claimOf(r)
		var wg sync.WaitGroup
		results := make([]lease.Result[lease.Bucket], rivals)
		claims := make([]lease.Claim, rivals)
		for i := range rivals {
			claims[i] = base
			claims[i].Session, claims[i].Attempt = lease.NewID(), lease.NewID()
			store := e.store
			if i%2 == 1 {
				store = e.second
			}
			ctx := e.ctx()
			wg.Go(func() { results[i] = store.Claim(ctx, claims[i]) })
		}
		wg.Wait()
		row := e.row(r)
		var applied, unknown int
		for i, res := range results {
			switch {
			case res.Outcome == ownership.Applied:
				applied++
				if row != grantOf(claims[i], r) {
					e.Fatalf("claim %d was applied, the row is %+v", i, row)
				}
			case res.Outcome == ownership.Unknown:
				unknown++
			case row.Attempt == claims[i].Attempt:
				e.Fatalf("claim %d was not applied (%v), and yet it has the row", i, res.Err)
			}
		}
		if applied > 1 || applied == 0 && unknown == 0 {
			e.Fatalf("of %d rivals %d were granted, %d unknown", rivals, applied, unknown)
		}
		// Whatever is under way still must not outlast a move of the fence.
		mover := e.claimOf(r)
		mover.Rows = nil
		e.eventually("the fence moved", func() bool {
			if e.store.Claim(e.ctx(), mover).Outcome == ownership.Applied {
				return true
			}
			b := e.grants(r)
			mover.Fence, mover.Next = b.Fence, b.Fence+1
			return false
		})
	}
}

func testReleaseByAttempt(e *env) {
	r := e.name()
	c := e.claim(r)
	wrong := grantOf(c, r)
	wrong.Attempt = lease.NewID()
	e.wantTold("Release by another attempt", refused(e, "Release by another attempt",
		e.store.Release(e.ctx(), c.Bucket, []lease.Grant{wrong})), c.Next, grantOf(c, r))
	e.wantRow(c, r)
	applied(e, "Release", e.store.Release(e.ctx(), c.Bucket, []lease.Grant{grantOf(c, r)}))
	b := e.grants(r)
	if g, _ := b.Row(r); !g.Free() || b.Fence != c.Next {
		e.Fatalf("released: fence %d, row %+v; want fence %d and a free row", b.Fence, g, c.Next)
	}
	refused(e, "second copy of Release", e.store.Release(e.ctx(), c.Bucket, []lease.Grant{grantOf(c, r)}))
	never := e.name()
	refused(e, "Release of what was never claimed", e.store.Release(e.ctx(), e.store.Bucket(never),
		[]lease.Grant{{Resource: never, Found: true, Token: 1, Session: lease.NewID(), Attempt: lease.NewID()}}))
	if g := e.row(never); g.Found {
		e.Fatalf("a refused Release left %+v", g)
	}
}

// DESIGN 8.3; etcd#22082: an old tenure cannot release a newer one.
func testReleaseLate(e *env) {
	r := e.name()
	old := e.claim(r)
	newer := e.claim(r)
	refused(e, "late Release", e.store.Release(e.ctx(), old.Bucket, []lease.Grant{grantOf(old, r)}))
	e.wantRow(newer, r)
	applied(e, "Release", e.store.Release(e.ctx(), newer.Bucket, []lease.Grant{grantOf(newer, r)}))
	third := e.claim(r)
	for _, c := range []lease.Claim{old, newer} {
		refused(e, "late Release", e.store.Release(e.ctx(), c.Bucket, []lease.Grant{grantOf(c, r)}))
	}
	e.wantRow(third, r)
}

func testReleaseManyAllOrNothing(e *env) {
	_, rs := e.neighbours(3)
	c := e.claim(rs...)
	newer := e.claim(rs[1])
	grants := []lease.Grant{grantOf(c, rs[0]), grantOf(c, rs[1]), grantOf(c, rs[2])}
	e.wantTold("Release of three", refused(e, "Release with one that is not ours", e.store.Release(e.ctx(), c.Bucket, grants)),
		newer.Next, grants[0], grantOf(newer, rs[1]), grants[2])
	e.wantRow(c, rs[0])
	e.wantRow(newer, rs[1])
	e.wantRow(c, rs[2])
	applied(e, "Release of the rest", e.store.Release(e.ctx(), c.Bucket, []lease.Grant{grants[0], grants[2]}))
	e.wantRow(newer, rs[1])
	b := e.grants(rs...)
	for _, r := range []string{rs[0], rs[2]} {
		if g, _ := b.Row(r); !g.Free() {
			e.Fatalf("released, the row is %+v", g)
		}
	}
}

// DESIGN 8.1: the fence outlives every grant.
func testFenceSurvives(e *env) {
	r := e.name()
	var last ownership.Token
	for range 20 {
		c := e.claim(r)
		if c.Fence < last {
			e.Fatalf("the fence went back from %d to %d", last, c.Fence)
		}
		applied(e, "Release", e.store.Release(e.ctx(), c.Bucket, []lease.Grant{grantOf(c, r)}))
		last = c.Next
	}
	// Rows that are absent must not hide the fence.
	if b := e.grants(r); b.Fence != last {
		e.Fatalf("with nothing granted Grants tells fence %d, want %d", b.Fence, last)
	}
	b, err := e.second.Peek(e.ctx(), e.store.Bucket(r), []string{r})
	if err != nil || b.Fence > last {
		e.Fatalf("Peek: fence %d, %v; want at most %d", b.Fence, err, last)
	}
}
