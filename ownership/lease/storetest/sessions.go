package storetest

import (
	"sync"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

func testLimits(e *env) {
	l := e.store.Limits()
	if l.Granularity < 0 || l.WholeTTL < 0 || l.MaxBatch < 1 {
		e.Fatalf("%+v: durations must not be negative and MaxBatch at least 1", l)
	}
	if l.WholeTTL > 0 && e.ttl%l.WholeTTL != 0 {
		e.Fatalf("Harness.TTL %v is no multiple of %v", e.ttl, l.WholeTTL)
	}
	if l != e.second.Limits() {
		e.Fatalf("two clients disagree: %+v and %+v", l, e.second.Limits())
	}
}

func testBucketIsPure(e *env) {
	for range 100 {
		r := e.name()
		if a, b := e.store.Bucket(r), e.second.Bucket(r); a != b || a == "" || a != e.store.Bucket(r) {
			e.Fatalf("Bucket(%q) is %q and %q", r, a, b)
		}
	}
}

func testOpenAndRead(e *env) {
	s := e.open(5 * e.ttl)
	e.wantAlive("Session", e.session(s.ID), s)
	e.eventually("PeekSession shows the session", func() bool {
		got, err := e.store.PeekSession(e.ctx(), s.ID)
		return err == nil && got.Alive() && got.Owner == s.Owner && got.TTL == s.TTL
	})
}

// A session id is never inserted a second time (DESIGN 5, Open).
func testOpenOnce(e *env) {
	s := e.open(5 * e.ttl)
	rival := s
	rival.Owner = "rival#1"
	e.toldAlive("refused Open", refused(e, "second Open", e.store.Open(e.ctx(), rival)), s)
	e.wantAlive("Session", e.session(s.ID), s)
}

func testReadAbsentSession(e *env) {
	id := lease.NewID()
	if s := e.session(id); s.Found || s.Dead || s.Alive() || !s.Revoked.IsZero() {
		e.Fatalf("a session that was never opened reads %+v", s)
	}
	if s, err := e.store.PeekSession(e.ctx(), id); err != nil || s.Found || s.Alive() {
		e.Fatalf("PeekSession of one that was never opened: %+v, %v", s, err)
	}
}

// USING TTL 0 means for ever (facts, Cassandra 4): it can never be sent, and a
// TTL that the store cannot express is not rounded in silence.
func testBadTTL(e *env) {
	bad := []time.Duration{0, -time.Second}
	if unit := e.store.Limits().WholeTTL; unit > 0 {
		bad = append(bad, unit/2, e.ttl+unit/2)
	}
	for _, ttl := range bad {
		id := lease.NewID()
		notSent(e, "Open under TTL "+ttl.String(), e.store.Open(e.ctx(), lease.Session{ID: id, Owner: "w", TTL: ttl}))
		if s := e.session(id); s.Found {
			e.Fatalf("TTL %v opened %+v", ttl, s)
		}
		s := e.open(5 * e.ttl)
		n := next(s)
		n.TTL = ttl
		notSent(e, "Renew under TTL "+ttl.String(), e.store.Renew(e.ctx(), n, lease.ID{}))
		notSent(e, "Revoke under TTL "+ttl.String(), e.store.Revoke(e.ctx(), s.ID, lease.NewID(), ttl))
		e.wantAlive("Session", e.session(s.ID), s)
	}
}

func testRenew(e *env) {
	s := e.open(5 * e.ttl)
	for range 3 {
		s = next(s)
		applied(e, "Renew", e.store.Renew(e.ctx(), s, lease.ID{}))
		e.wantAlive("Session", e.session(s.ID), s)
	}
}

func testRenewRefused(e *env) {
	s := e.open(5 * e.ttl)
	for _, seq := range []int64{-1, 0, 2, 7} {
		n := s
		n.Seq = seq
		e.toldAlive("refused Renew", refused(e, "Renew from another seq", e.store.Renew(e.ctx(), n, lease.ID{})), s)
	}
	e.wantAlive("Session", e.session(s.ID), s)

	// The second copy of a renewal is refused by the first (DESIGN 5, unknown
	// outcome: seq = n+1 → done).
	s = next(s)
	applied(e, "Renew", e.store.Renew(e.ctx(), s, lease.ID{}))
	e.toldAlive("refused copy", refused(e, "second copy of Renew", e.store.Renew(e.ctx(), s, lease.ID{})), s)

	absent := lease.Session{ID: lease.NewID(), Owner: "w", Seq: 1, TTL: e.ttl}
	if c := refused(e, "Renew of an absent session", e.store.Renew(e.ctx(), absent, lease.ID{})); c.Found || c.Dead {
		e.Fatalf("Renew of an absent session is refused by %+v", c)
	}
	absent.Seq = 0
	refused(e, "Renew to seq 0 of an absent session", e.store.Renew(e.ctx(), absent, lease.ID{}))
	if c := e.session(absent.ID); c.Found {
		e.Fatalf("a refused Renew left %+v", c)
	}
}

// DESIGN 5, Revocation: the renewal is refused until it acknowledges it.
func testRenewAcknowledges(e *env) {
	s := e.open(5 * e.ttl)
	attempt := lease.NewID()
	refused(e, "Renew that acknowledges what was not asked", e.store.Renew(e.ctx(), next(s), attempt))
	applied(e, "Revoke", e.store.Revoke(e.ctx(), s.ID, attempt, 5*e.ttl))
	revoked := s
	revoked.Revoked = attempt
	e.toldAlive("refused Renew", refused(e, "Renew without acknowledgement", e.store.Renew(e.ctx(), next(s), lease.ID{})), revoked)
	e.toldAlive("refused Renew", refused(e, "Renew with another one", e.store.Renew(e.ctx(), next(s), lease.NewID())), revoked)
	e.wantAlive("Session", e.session(s.ID), revoked)
	s = next(s)
	applied(e, "Renew with acknowledgement", e.store.Renew(e.ctx(), s, attempt))
	e.wantAlive("Session", e.session(s.ID), s)
	applied(e, "next Renew", e.store.Renew(e.ctx(), next(s), lease.ID{}))
}

// scylladb#14019, temporal#935: a cell that a renewal does not rewrite lapses
// with the TTL of the insert.
func testRenewRewritesEveryCell(e *env) {
	s := e.open(e.ttl)
	opened := time.Now()
	s = next(s)
	s.TTL = 20 * e.ttl
	applied(e, "Renew", e.store.Renew(e.ctx(), s, lease.ID{}))
	e.eventually("the TTL of the insert has passed twice", func() bool { return time.Since(opened) > 2*e.ttl })
	e.wantAlive("Session", e.session(s.ID), s)
	applied(e, "next Renew", e.store.Renew(e.ctx(), next(s), lease.ID{}))
}

func testSessionExpires(e *env) {
	sent := time.Now()
	s := e.open(e.ttl)
	e.eventually("the session has expired", func() bool { return !e.session(s.ID).Found })
	if lived, least := time.Since(sent), e.ttl-e.store.Limits().Granularity; lived < least {
		e.Fatalf("expired %v after Open was sent; TTL − granularity is %v", lived, least)
	}
	if c := e.session(s.ID); c.Alive() || c.Dead {
		e.Fatalf("expired, it reads %+v", c)
	}
	// DESIGN 8.3: what has expired does not come back.
	if c := refused(e, "late Renew", e.store.Renew(e.ctx(), next(s), lease.ID{})); c.Found || c.Dead {
		e.Fatalf("a late Renew is refused by %+v", c)
	}
	refused(e, "late End", e.store.End(e.ctx(), s))
	if c := e.session(s.ID); c.Found {
		e.Fatalf("after a late Renew and End it reads %+v", c)
	}
}

// wantDead checks every way back to life of a session that has a certificate.
func (e *env) wantDead(s lease.Session, wait time.Duration) {
	e.Helper()
	dead := func(what string, c lease.Session) {
		e.Helper()
		if !c.Dead || c.Alive() {
			e.Fatalf("%s: %+v, want dead", what, c)
		}
	}
	waits := func(what string, c lease.Session) { // claimants go by these
		e.Helper()
		dead(what, c)
		if c.Wait != wait || c.ID != s.ID {
			e.Fatalf("%s: %+v, want session %v with wait %v", what, c, s.ID, wait)
		}
	}
	waits("Session", e.session(s.ID))
	for _, seq := range []int64{s.Seq + 1, s.Seq, 0, 1} { // 0 follows the −1 of the certificate
		n := s
		n.Seq = seq
		dead("refused Renew", refused(e, "Renew of a dead session", e.store.Renew(e.ctx(), n, lease.ID{})))
	}
	dead("refused Open", refused(e, "Open of a dead session", e.store.Open(e.ctx(), s)))
	dead("refused End", refused(e, "End of a dead session", e.store.End(e.ctx(), s)))
	dead("refused Revoke", refused(e, "Revoke of a dead session", e.store.Revoke(e.ctx(), s.ID, lease.NewID(), e.ttl)))
	waits("refused Kill", refused(e, "second Kill", e.store.Kill(e.ctx(), s.ID, nil, wait+time.Hour)))
	waits("refused Kill", refused(e, "second Kill by seq", e.store.Kill(e.ctx(), s.ID, &s.Seq, wait+time.Hour)))
	waits("Session", e.session(s.ID))
}

// DESIGN 8.3: a session once declared dead never renews, and its id is spent.
func testKillAbsent(e *env) {
	s := lease.Session{ID: lease.NewID(), Owner: "w", TTL: 5 * e.ttl}
	applied(e, "Kill", e.store.Kill(e.ctx(), s.ID, nil, 0))
	e.wantDead(s, 0)
}

func testKillLivingRefused(e *env) {
	s := e.open(5 * e.ttl)
	e.toldAlive("refused Kill", refused(e, "Kill of the living", e.store.Kill(e.ctx(), s.ID, nil, 0)), s)
	other := s.Seq + 3
	e.toldAlive("refused Kill", refused(e, "Kill by another seq", e.store.Kill(e.ctx(), s.ID, &other, 0)), s)
	e.wantAlive("Session", e.session(s.ID), s)
	applied(e, "Renew", e.store.Renew(e.ctx(), next(s), lease.ID{}))
	old := s.Seq
	e.toldAlive("refused Kill", refused(e, "Kill by the last seq", e.store.Kill(e.ctx(), s.ID, &old, 0)), next(s))
	absent := int64(0)
	if c := refused(e, "Kill by seq of an absent session", e.store.Kill(e.ctx(), lease.NewID(), &absent, 0)); c.Found || c.Dead {
		e.Fatalf("Kill by seq of an absent session is refused by %+v", c)
	}
}

// DESIGN 5, Revocation by force: the certificate carries what claimants wait out.
func testKillBySeq(e *env) {
	s := e.open(5 * e.ttl)
	s = next(s)
	applied(e, "Renew", e.store.Renew(e.ctx(), s, lease.ID{}))
	wait := 5*e.ttl + time.Second
	applied(e, "Kill", e.store.Kill(e.ctx(), s.ID, &s.Seq, wait))
	e.wantDead(s, wait)
}

func testKillExpired(e *env) {
	s := e.open(e.ttl)
	e.eventually("the expired session was killed", func() bool {
		r := e.store.Kill(e.ctx(), s.ID, nil, 0)
		if r.Outcome == ownership.NotApplied && r.Err == nil {
			e.toldAlive("refused Kill", r.Current, s)
			return false
		}
		applied(e, "Kill", r)
		return true
	})
	e.wantDead(s, 0)
}

// facts, Cassandra 5a: a cell of the row that outlives seq must not refuse the
// certificate, and does not make the session look alive.
func testKillDespiteLeftoverCell(e *env) {
	s := e.open(e.ttl)
	attempt := lease.NewID()
	applied(e, "Revoke", e.store.Revoke(e.ctx(), s.ID, attempt, 20*e.ttl))
	e.eventually("the session has expired", func() bool { return !e.session(s.ID).Found })
	if c := e.session(s.ID); c.Alive() {
		e.Fatalf("with only a revocation left it reads %+v", c)
	}
	refused(e, "Renew", e.store.Renew(e.ctx(), next(s), attempt))
	applied(e, "Kill", e.store.Kill(e.ctx(), s.ID, nil, 0))
	e.wantDead(s, 0)
}

func testCertificateOutlivesTTL(e *env) {
	s := e.open(e.ttl)
	applied(e, "Kill", e.store.Kill(e.ctx(), s.ID, &s.Seq, time.Second))
	killed := time.Now()
	e.eventually("two TTLs have passed", func() bool { return time.Since(killed) > 2*e.ttl })
	e.wantDead(s, time.Second)
}

// facts, Cassandra 5a: a renewal that began before the expiry was seen to apply
// after a kill that set only dead. Renewals and kills race at the expiry; once a
// kill has applied, the session is dead for good.
func testKillAgainstLateRenewals(e *env) {
	for range 3 {
		s := e.open(e.ttl)
		opened := time.Now()
		near := e.ttl - e.store.Limits().Granularity - e.ttl/20
		e.eventually("the expiry is near", func() bool { return time.Since(opened) > near })
		var wg sync.WaitGroup
		killed := make(chan struct{})
		wg.Go(func() {
			for {
				select {
				case <-killed:
					return
				default:
				}
				r := e.second.Renew(e.ctx(), next(s), lease.ID{})
				if r.Outcome == ownership.Applied {
					return // in time: the kill waits for this one to lapse
				}
				time.Sleep(e.ttl / 200)
			}
		})
		e.eventually("the session is dead", func() bool {
			r := e.store.Kill(e.ctx(), s.ID, nil, 0)
			if r.Outcome == ownership.Unknown {
				return e.session(s.ID).Dead
			}
			return r.Outcome == ownership.Applied || r.Current.Dead
		})
		close(killed)
		wg.Wait()
		e.wantDead(s, 0)
	}
}

func testRevokeOnce(e *env) {
	s := e.open(5 * e.ttl)
	want := s
	want.Revoked = lease.NewID()
	applied(e, "Revoke", e.store.Revoke(e.ctx(), s.ID, want.Revoked, 5*e.ttl))
	e.toldAlive("refused Revoke", refused(e, "Revoke of another", e.store.Revoke(e.ctx(), s.ID, lease.NewID(), 5*e.ttl)), want)
	e.toldAlive("refused Revoke", refused(e, "Revoke of the same", e.store.Revoke(e.ctx(), s.ID, want.Revoked, 5*e.ttl)), want)
	e.wantAlive("Session", e.session(s.ID), want)
}

func testRevokeRefused(e *env) {
	id := lease.NewID()
	if c := refused(e, "Revoke of an absent session", e.store.Revoke(e.ctx(), id, lease.NewID(), e.ttl)); c.Found {
		e.Fatalf("Revoke of an absent session is refused by %+v", c)
	}
	if c := e.session(id); c.Found || !c.Revoked.IsZero() {
		e.Fatalf("a refused Revoke left %+v", c)
	}
}

func testRevocationExpires(e *env) {
	s := e.open(20 * e.ttl)
	applied(e, "Revoke", e.store.Revoke(e.ctx(), s.ID, lease.NewID(), e.ttl))
	e.eventually("the revocation has expired", func() bool { return e.session(s.ID).Revoked.IsZero() })
	e.wantAlive("Session", e.session(s.ID), s)
	applied(e, "Renew", e.store.Renew(e.ctx(), next(s), lease.ID{}))
}

func testEnd(e *env) {
	s := e.open(5 * e.ttl)
	e.toldAlive("refused End", refused(e, "End by another seq", e.store.End(e.ctx(), next(s))), s)
	e.wantAlive("Session", e.session(s.ID), s)
	applied(e, "End", e.store.End(e.ctx(), s))
	if c := e.session(s.ID); c.Found || c.Dead {
		e.Fatalf("ended, it reads %+v", c)
	}
	for what, r := range map[string]lease.Result[lease.Session]{
		"second End":      e.store.End(e.ctx(), s),
		"Renew after End": e.store.Renew(e.ctx(), next(s), lease.ID{}),
	} {
		if c := refused(e, what, r); c.Found || c.Dead {
			e.Fatalf("%s is refused by %+v", what, c)
		}
	}
	applied(e, "Kill after End", e.store.Kill(e.ctx(), s.ID, nil, 0))
	e.wantDead(s, 0)
}
