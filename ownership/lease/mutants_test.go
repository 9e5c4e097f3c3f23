//go:build mutants

package lease_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// mutant is this module with one rule taken out of it. The tests that it names must
// fail on it: otherwise the rule is not tested.
type mutant struct {
	name  string
	file  string   // as seen from this folder
	edits []string // old, new, old, new, ...
	tests string   // as -run takes them
}

var mutants = []mutant{
	// DESIGN 5, open and renew.
	{"a session id is inserted twice", "session.go", []string{
		"	var pace backoff\n	for {\n		s := &session{\n			id: NewID(), o: o,",
		"	var pace backoff\n	id := NewID()\n	for {\n		s := &session{\n			id: id, o: o,"}, "TestSessionIDIsInsertedOnce"},
	{"the deadline counts from the response", "renew.go", []string{"s.prove(r.target, r.first)", "s.prove(r.target, o.clock.Now())"},
		"TestDeadlineCountsFromBeforeTheSend"},
	{"the first deadline counts from the response", "session.go", []string{
		"if res.Outcome == ownership.Unknown {\n			d := doubt", "s.sent = o.clock.Now()\n		if res.Outcome == ownership.Unknown {\n			d := doubt"},
		"TestDeadlineCountsFromBeforeTheSend"},
	{"the deadline counts from the last copy", "renew.go", []string{"s.prove(r.target, r.first)", "s.prove(r.target, sent)"},
		"TestDeadlineCountsFromTheFirstCopy"},
	{"a copy that was not sent counts", "renew.go", []string{"if r.first.Equal(sent) {", "if false {"}, "TestRejectedCopyDoesNotCount"},
	{"a grant's deadline counts from its claim", "claim.go", []string{
		"g.driver.Confirm(safe, end)", "_ = safe\n			g.driver.Confirm(o.timing.Safe(o.clock.Now()), end)"}, "TestGrantLivesAsLongAsItsSession"},
	{"a renewal is retried blindly, under a fresh seq", "renew.go", []string{
		"r.doubt.arises(res.Err)", "r.doubt.arises(res.Err)\n		r.target++\n		break"}, "TestSeqIsNeverSkipped|TestOneFaultAnywhere/Renew"},
	{"a renewal ignores dead", "renew.go", []string{"case row.Dead:", "case false:"}, "TestDeadIsLookedAtFirst"},
	{"a read-back takes longer than an interval leaves", "renew.go", []string{
		"left := min(o.timing.RequestTimeout, o.clock.Until(sent.Add(o.timing.RenewEvery)))", "left := o.timing.RequestTimeout"},
		"TestTwoLostRenewalsChangeNothing"},
	{"a claim waits for a session that has ended", "claim.go", []string{
		"} else {\n			g.driver.Lose(cause)\n		}", "}",
		"case state.Terminal():", "case state.Terminal() && !g.session.isOver():"}, "TestSessionEndsUnderAClaim"},
	{"Suspect lets the work go on", "../tenure.go", []string{
		"if t.term.state != Held && t.period != nil {", "if t.term.state.Terminal() && t.period != nil {"}, "TestDoubtAndProof"},

	// Claims and takeovers.
	{"a claim ignores the fence", "../memory/store.go", []string{"if now.Fence != c.Fence {", "if false {"},
		"TestClaimThatTheFenceHasPassed|TestRefusedSecondCopyIsNotFinal"},
	{"two claims of one bucket are in flight", "bucket.go", []string{"make(chan struct{}, 1)", "make(chan struct{}, 2)"}, "TestOneChangeInFlight"},
	{"a takeover needs no certificate", "death.go", []string{"res := o.store.Kill(rctx, id, nil, 0)", "res := Applied[Session]()"},
		"TestTakeoverWritesACertificateFirst|TestSessionThatOnlyLooksExpiredIsNotOverrun"},
	{"a certificate leaves seq alone", "../memory/store.go", []string{"Seq: -1, TTL: c.TTL", "Seq: c.Seq, TTL: c.TTL"}, "TestTakeoverWritesACertificateFirst"},
	{"every resource asks for a certificate", "death.go", []string{"q := d.inquiries[id]", "q := (*inquiry)(nil)"}, "TestOneCertificateForADeadProcess"},
	{"an inquiry that was given up is everybody's answer", "death.go", []string{"if !q.abandoned {", "if true {"}, "TestInquiryGivenUpIsTakenOver"},
	{"a certificate is remembered by what a refusal calls it", "death.go", []string{"o.deaths.record(id, o.clock.Now().Add(row.Wait", "o.deaths.record(row.ID, o.clock.Now().Add(row.Wait"},
		"TestCertificatesAreToldApart"},
	{"a forced certificate is not waited out", "death.go", []string{"row.Wait+o.cfg.LockDelay", "o.cfg.LockDelay"}, "TestForcedCertificateIsWaitedOut"},
	{"a forced certificate asks for no wait", "revoke.go", []string{"s.TTL+o.timing.Skew", "0"}, "TestForcedCertificateIsWaitedOut"},
	{"the lock-delay is forgotten", "death.go", []string{"o.deaths.record(id, o.clock.Now().Add(o.cfg.LockDelay))", "o.deaths.record(id, o.clock.Now())"}, "TestLockDelay"},
	{"a claim replaces whatever is there", "../memory/store.go", []string{"ok != r.Found || ok && g.Attempt != r.Over", "ok != r.Found && false && g.Attempt != r.Over",
		"if now.Fence != c.Fence {", "if false {"}, "TestClaimReplacesTheJudgedRowOnly"},
	{"TokenFloor is ignored", "claim.go", []string{"c.o.cfg.TokenFloor) + 1", "0) + 1"}, "TestTokenFloor"},
	{"a hint bears a verdict", "claim.go", []string{"if len(taken) > 0 && how == plainly {", "if false {"}, "TestOldHintIsNoVerdict"},
	{"calls take their slots in any order", "many.go", []string{"slices.Sorted(slices.Values(resources))", "slices.Clone(resources)"}, "TestManyCrosswise"},
	{"what a store refuses as invalid is tried for ever", "lease.go", []string{"case errors.Is(err, ownership.ErrInvalid):", "case false:"}, "TestInvalidForTheStore"},

	// Unknown outcomes of claims.
	{"a read-back reads the rows before the fence", "unknown_test.go", []string{
		"fence, err := s.Store.Grants(ctx, bucket, nil)", "fence, err := s.Store.Grants(ctx, bucket, resources)",
		"Fence: fence.Fence, Rows: rows.Rows}", "Fence: rows.Fence, Rows: fence.Rows}"}, "TestClaimLandsDuringTheReadBack"},
	{"a read-back looks for the owner's name", "resolve.go", []string{"if g.Attempt == claim.Attempt {", "if g.Owner == claim.Owner {"}, "TestReadBackLooksForTheAttempt"},
	{"a refused second copy is final", "resolve.go", []string{"&& c.moveFence(ctx, claim) == ownership.Applied {", "{"}, "TestRefusedSecondCopyIsNotFinal"},
	{"a lost claim gets a fresh attempt at once", "resolve.go", []string{
		"res := c.sendAgain(ctx, claim)", "claim.Attempt = NewID()\n			res := c.sendAgain(ctx, claim)"}, "TestClaimThatWasLostIsSentAgain"},
	{"an abandoned claim is forgotten", "claim.go", []string{
		"			c.abandon(claim, wanted)\n", "",
		"return nil, without(slots, wanted), errors.Join(append(held, acquireError(wanted, err))...)",
		"return nil, slots, errors.Join(append(held, acquireError(wanted, err))...)"}, "TestCancelledAnywhere/SecondAcquire|TestAbandonedClaim"},
	{"an abandoned claim is found, and left", "resolve.go", []string{
		"if c.o.releaseRows(ctx, c.session, c.bucket, ours) == nil {", "if true {"}, "TestCancelledAnywhere/SecondAcquire"},
	{"strays are left", "claim.go", []string{"len(strays) > 0 {", "len(strays) < 0 {"}, "TestOwnerRemovesStrays/.*/AtTheClaim|TestOneFaultAnywhere/AcquireOverAStray"},
	{"a stray in the place of a grant is left", "release.go", []string{"now.Attempt == g.Attempt || now.Session == s.id", "now.Attempt == g.Attempt"},
		"TestOwnerRemovesStrays/.*/AtTheRelease"},

	// Releases, audits, Close.
	{"a release is unconditional", "release.go", []string{"(now.Attempt == g.Attempt || now.Session == s.id)", "true"}, "TestReleaseIsByAttempt"},
	{"the store releases whatever is there", "../memory/store.go", []string{"r.Attempt != g.Attempt || g.Attempt.IsZero()", "r.Attempt.IsZero() || g.Attempt.IsZero()"}, "TestReleaseIsByAttempt|TestReleaseThatArrivesLate"},
	{"a refused batch is forgotten", "release.go", []string{"if len(left) == 0 {", "if true {"}, "TestRefusedBatchReleasesTheRest|TestOneFaultAnywhere/Release"},
	{"silence counts as released", "release.go", []string{"case over != nil:\n", "case over != nil:\n			return nil\n		case false:\n"},
		"TestReleaseThatWasNeverAnswered|TestReleaseUnderWayAtClose"},
	{"a stuck bucket takes all workers", "release.go", []string{"len(q.queued[g.bucket]) == 0 && !q.busy[g.bucket]", "len(q.queued[g.bucket]) == 0"}, "TestStuckBucketHoldsUpNoOther"},
	{"a grant goes back before its work has stopped", "../tenure.go", []string{"if (!t.ended || t.working > 0) && now.Before(t.term.safe) {", "if false {"},
		"TestWorkStopsBeforeTheRelease|TestCloseInOrder"},
	{"there is no audit", "session.go", []string{"	s.o.goroutines.Go(s.audit)\n", ""}, "TestAudit"},
	{"an audit convicts by a plain read", "audit.go", []string{"row, differs := s.differs(s.o.store.Grants, g)", "row, differs := s.differs(s.o.store.Peek, g)"},
		"TestAuditByAnOldReadConvictsNobody"},
	{"an audit compares attempts only", "audit.go", []string{"(row.Attempt != g.attempt || row.Session != s.id || row.Token != g.token)", "row.Attempt != g.attempt"},
		"TestAuditComparesTokenAndSession"},
	{"Close deletes the session before the work has drained", "close.go", []string{
		"	settled := o.quiet(ctx)\n", "	settled := o.quiet(ctx)\n	if s := o.sessions.current(); s != nil {\n		_ = o.endSession(ctx, s)\n	}\n"}, "TestCloseInOrder"},
	{"Close deletes the session though work goes on", "close.go", []string{"		if err == nil {\n			err = o.endSession(ctx, s)", "		{\n			_ = o.endSession(o.background, s)"},
		"TestCloseOfWorkThatGoesOn"},
	{"Close forgets a tenure", "close.go", []string{"for _, g := range list {", "for _, g := range list[min(1, len(list)):] {"}, "TestCloseInOrder|TestOneFaultAnywhere/Close"},
	{"Close forgets what was under way", "close.go", []string{"grants := o.endTenures() //", "var grants []*grant //"}, "TestCloseInOrder|TestCloseOfWorkThatGoesOn"},
	{"Close does not look for the seq that a renewal came to", "close.go", []string{"seq = row.Seq //", "_ = row.Seq //"}, "TestCloseResolvesTheRenewalFirst"},

	// Revocations and waiting.
	{"a revocation ends everything of its claim", "revoke.go", []string{
		"	id := ID(sum[:16])\n", "	id := ID(sum[:16])\n	if true {\n		return attempt\n	}\n"}, "TestRevoke$"},
	{"a revocation that overtakes its grant is lost", "session.go", []string{"if s.claims > 0 {", "if false {"}, "TestRevocationOvertakesTheGrant"},
	{"a revocation that has lapsed is acknowledged for ever", "renew.go", []string{"case a.revoked != r.acknowledge:", "case a.revoked != r.acknowledge && !a.revoked.IsZero():"},
		"TestRevocationThatLapses"},
	{"an unknown revocation is called failed", "revoke.go", []string{"if d.open {", "if false {"}, "TestRevokeUnknown"},
	{"waiters come at once", "pace.go", []string{"return d/2 + rand.N(d+1)", "return d"}, "TestWaitersSpreadOut"},
	{"a holder whose session is gone is the holder", "holder.go", []string{"if s.Alive() {", "if true {"}, "TestHolder"},
	{"knowledge is kept for ever", "bucket.go", []string{"b.free == nil || len(b.free) >= maxKnown", "b.free == nil"}, "TestMemoryOfManyNames"},
}

// TestMutants breaks the module in every way of the list and runs the tests that
// must see it. It compiles each variant, so it runs only with
// go test -tags mutants -run TestMutants ./ownership/lease.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			out, err := m.test(t)
			switch {
			case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
				t.Fatalf("the mutant does not compile:\n%s", out)
			case strings.Contains(out, "no tests to run"):
				t.Fatalf("there is no test %s", m.tests)
			case err == nil:
				t.Fatalf("it survives %s", m.tests)
			}
			if failed := regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`).FindStringSubmatch(out); failed != nil {
				t.Logf("caught by %s", failed[1])
			} else {
				t.Logf("caught by %s", m.tests) // it hung, or the bubble could not end
			}
		})
	}
}

// test runs the mutant's tests over an overlay of the changed file.
func (m mutant) test(t *testing.T) (string, error) {
	t.Helper()
	source, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for i := 0; i < len(m.edits); i += 2 {
		if strings.Count(text, m.edits[i]) == 0 {
			t.Fatalf("%s has changed: there is no %q in it any more; adapt the mutant", m.file, m.edits[i])
		}
		text = strings.Replace(text, m.edits[i], m.edits[i+1], 1)
	}
	changed := filepath.Join(t.TempDir(), "changed.go")
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=3", "-timeout=60s", "-overlay", file, "-run", m.tests, ".")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
