package ownershiptest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// DESIGN 1, 4: what a fresh tenure says of itself, and what others hear of it.
func testFirstGrant(e *env) {
	a, b := e.process("alice"), e.process("bob")
	r := e.name()
	before := time.Now()
	t := a.take(r)
	e.wantState(t, ownership.Held)
	e.wantHeld(t)
	if t.Resource() != r || t.Owner().Name != "alice" || t.Owner().Nonce == "" || !t.Token().Valid() {
		e.Fatalf("%q, %v, token %d", t.Resource(), t.Owner(), t.Token())
	}
	// DESIGN 2, Time: counted from before the request was sent.
	usable := e.timing.Usable()
	if d := t.Deadline(); d.Before(before) || d.After(time.Now().Add(usable)) {
		e.Fatalf("the deadline is in %v; at most %v can be proven", time.Until(d), usable)
	}
	if err := t.Ensure(usable + time.Second); !errors.Is(err, ownership.ErrNotHeld) {
		e.Fatalf("Ensure for longer than any lease: %v", err)
	}
	for _, p := range []*proc{a, b} {
		h, err := p.Holder(e.ctx(), r)
		if err != nil || h.Vacant() || h.Owner != t.Owner() || h.Token != t.Token() || h.Fence < h.Token || h.Resource != r {
			e.Fatalf("Holder for %s: %+v, %v; want %v under token %d", p.owner, h, err, t.Owner(), t.Token())
		}
	}
}

// DESIGN 7: every fault of the input is named, before anything is sent.
func testBadNames(e *env) {
	p := e.process("alice")
	var sent atomic.Int64
	if p.Observe != nil {
		p.Observe(func(Request) { sent.Add(1) })
	}
	long := strings.Repeat("x", ownership.MaxResource+1)
	for name, faults := range map[string]int{"": 1, long: 1, "a\xffb": 1, long + "\xff": 2} {
		_, acquire := p.Acquire(e.ctx(), name)
		_, try := p.TryAcquire(e.ctx(), name)
		_, holder := p.Holder(e.ctx(), name)
		var watch error
		n := 0
		for _, err := range p.Watch(e.ctx(), name) {
			watch = err
			n++
		}
		if n != 1 {
			e.Errorf("Watch of a bad name yielded %d times, want once", n)
		}
		for what, err := range map[string]error{"Acquire": acquire, "TryAcquire": try, "Holder": holder, "Watch": watch} {
			var invalid *ownership.InvalidError
			if !errors.Is(err, ownership.ErrInvalid) || !errors.As(err, &invalid) {
				e.Errorf("%s(%.20q): %v, want ErrInvalid", what, name, err)
				continue
			}
			if got := len(strings.Split(err.Error(), "\n")); got < faults {
				e.Errorf("%s(%.20q): %d faults in %q, want %d", what, name, got, err, faults)
			}
		}
	}
	if n := sent.Load(); n > 0 {
		e.Errorf("%d requests were sent for names that are invalid", n)
	}
}

// DESIGN 4: everything returns when the context ends; one that has ended leaves
// nothing behind.
func testEndedContext(e *env) {
	a, b := e.process("alice"), e.process("bob")
	r := e.name()
	why := errors.New("the test ended it")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	_, acquire := a.Acquire(ctx, r)
	_, try := a.TryAcquire(ctx, r)
	_, holder := a.Holder(ctx, r)
	for what, err := range map[string]error{"Acquire": acquire, "TryAcquire": try, "Holder": holder} {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, why) {
			e.Errorf("%s under an ended context: %v", what, err)
		}
	}
	for range a.Watch(ctx, r) {
		e.Error("Watch under an ended context yielded something")
	}
	b.take(r)
}

func testHeldErrorNamesTheOther(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := a.take(e.name())
	b.refused(t)
	a.refused(t) // another tenure of this process is no different
	e.wantState(t, ownership.Held)
	if n := len(a.transitions(t)); n != 1 {
		e.Errorf("the attempts of others moved the tenure: %v", a.transitions(t))
	}
}

// kubernetes#22775: two processes with the same owner name are still rivals.
func testSameNameStillRivals(e *env) {
	a, b := e.process("twin"), e.process("twin")
	t := a.take(e.name())
	b.refused(t)
	a.release(t)
	u := b.take(t.Resource())
	if u.Owner() == t.Owner() || u.Owner().Name != t.Owner().Name {
		e.Fatalf("owners %v and %v: want equal names and unlike nonces", t.Owner(), u.Owner())
	}
	a.refused(u)
}

// Exactly one of two that race is granted; the other hears who.
func testRaceOneWins(e *env) {
	a, b := e.process("alice"), e.process("bob")
	r := e.name()
	rounds := 20
	if e.h.VirtualTime {
		rounds = 200
	}
	var last ownership.Token
	for range rounds {
		var (
			wg  sync.WaitGroup
			got [2]*ownership.Tenure
			err [2]error
		)
		for i, p := range []*proc{a, b} {
			ctx := e.ctx()
			wg.Go(func() { got[i], err[i] = p.TryAcquire(ctx, r) })
		}
		wg.Wait()
		winner, loser := 0, 1
		if got[0] == nil {
			winner, loser = 1, 0
		}
		if got[winner] == nil || got[loser] != nil {
			e.Fatalf("won: %v and %v (%v; %v), want one", got[0] != nil, got[1] != nil, err[0], err[1])
		}
		var held *ownership.HeldError
		if !errors.As(err[loser], &held) || held.Holder.Owner != got[winner].Owner() {
			e.Fatalf("the loser heard %v, want that %v holds it", err[loser], got[winner].Owner())
		}
		if tok := got[winner].Token(); tok <= last {
			e.Fatalf("token %d after %d", tok, last)
		} else {
			last = tok
		}
		if err := got[winner].Release(e.ctx()); err != nil {
			e.Fatalf("Release: %v", err)
		}
	}
}

// DESIGN 8.1: many fast cycles, in one process and by turns in two.
func testTokensIncreaseOverReleases(e *env) {
	ps := []*proc{e.process("alice"), e.process("bob")}
	r := e.name()
	cycles := 60
	if e.h.VirtualTime {
		cycles = 1000
	}
	var last ownership.Token
	for i := range cycles {
		p := ps[0]
		if i > cycles/2 {
			p = ps[i%2]
		}
		t, err := p.TryAcquire(e.ctx(), r)
		if err != nil {
			e.Fatalf("cycle %d: %v", i, err)
		}
		if t.Token() <= last {
			e.Fatalf("cycle %d: token %d after %d", i, t.Token(), last)
		}
		last = t.Token()
		if err := t.Release(e.ctx()); err != nil {
			e.Fatalf("cycle %d: %v", i, err)
		}
	}
}

// DESIGN 8.1: over the crash of a process, and its restart under the same name.
func testTokensIncreaseOverCrashes(e *env) {
	r := e.name()
	var last ownership.Token
	for i := range 3 {
		p := e.process("worker")
		t := p.acquire(r) // waits until the one before has expired
		if t.Token() <= last {
			e.Fatalf("life %d: token %d after %d", i, t.Token(), last)
		}
		last = t.Token()
		p.crash()
	}
}

// A waiting Acquire wakes after a release, long before any lease runs out: the
// holder's session goes on.
func testAcquireWakesAfterRelease(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := a.take(e.name())
	var wg sync.WaitGroup
	var got *ownership.Tenure
	var err error
	ctx := e.ctx()
	wg.Go(func() { got, err = b.Acquire(ctx, t.Resource()) })
	e.pass(e.timing.TTL/4, "while alice holds it", func() error { return t.Ensure(0) })
	a.release(t)
	keeper := a.take(e.name()) // the session of alice stays alive
	wg.Wait()
	if err != nil {
		e.Fatalf("Acquire: %v", err)
	}
	b.own(got)
	e.wantState(keeper, ownership.Held)
	if got.Token() <= t.Token() {
		e.Fatalf("token %d after %d", got.Token(), t.Token())
	}
}

// consul#9469: N waiters get it one after the other, each alone.
func testWaitersOneAtATime(e *env) {
	r := e.name()
	const n = 5
	var (
		wg     sync.WaitGroup
		inside atomic.Int64
		mu     sync.Mutex
		tokens []ownership.Token
	)
	for i := range n {
		p := e.process(fmt.Sprintf("waiter-%d", i))
		ctx := e.ctx()
		wg.Go(func() {
			t, err := p.Acquire(ctx, r)
			if err != nil {
				e.Errorf("%s: %v", p.owner, err)
				return
			}
			if inside.Add(1) != 1 {
				e.Errorf("%s is not alone", p.owner)
			}
			mu.Lock()
			tokens = append(tokens, t.Token())
			mu.Unlock()
			time.Sleep(e.timing.TTL / 100) // time in which another could come in
			inside.Add(-1)
			if err := t.Release(ctx); err != nil {
				e.Errorf("%s: Release: %v", p.owner, err)
			}
		})
	}
	wg.Wait()
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			e.Errorf("tokens in the order of winning: %v", tokens)
		}
	}
	if len(tokens) != n {
		e.Errorf("%d of %d were served", len(tokens), n)
	}
}

// Two callers in one process take turns, too, each under a token of its own.
func testOneProcessTakesTurns(e *env) {
	a := e.process("alice")
	r := e.name()
	const n = 4
	var wg sync.WaitGroup
	var inside atomic.Int64
	tokens := make(chan ownership.Token, n)
	for range n {
		ctx := e.ctx()
		wg.Go(func() {
			t, err := a.Acquire(ctx, r)
			if err != nil {
				e.Errorf("Acquire: %v", err)
				return
			}
			if inside.Add(1) != 1 {
				e.Error("two of one process hold it at once")
			}
			tokens <- t.Token()
			time.Sleep(e.timing.TTL / 200)
			inside.Add(-1)
			if err := t.Release(ctx); err != nil {
				e.Errorf("Release: %v", err)
			}
		})
	}
	wg.Wait()
	close(tokens)
	var last ownership.Token
	for tok := range tokens {
		if tok <= last {
			e.Errorf("token %d after %d", tok, last)
		}
		last = tok
	}
}

// DESIGN 5, 8.4: a context cancelled at any point of an acquire never leaves a
// grant that nobody holds. The session of the process lives on, so nothing but
// the process itself would ever remove it.
func testCancelAtEveryPoint(e *env) {
	modes := []Failure{"", LoseAnswer, LoseRequest, Late}
	if e.h.VirtualTime {
		modes = append(modes, Reject, Hang)
	}
	for _, mode := range modes {
		a, b := e.process("alice"), e.process("bob")
		keeper := a.take(e.name())
		for name, acquire := range map[string]func(context.Context, string) (*ownership.Tenure, error){
			"TryAcquire": a.TryAcquire, "Acquire": a.Acquire,
		} {
			point := 1
			for e.cancelAt(a, b, acquire, point, mode) {
				if point++; point > 200 {
					e.Fatalf("%s with failure %q has no end", name, mode)
				}
			}
			if point < 3 {
				e.Fatalf("%s with failure %q had %d points only; nothing was shown", name, mode, point-1)
			}
		}
		e.wantHeld(keeper)
		a.release(keeper)
	}
}

// cancelAt lets a acquire a resource while its first change meets a failure, and
// cancels the context at the given point: the nth request about to be sent, or
// answer about to be returned. b must get the resource afterwards. It reports
// whether that point was reached.
func (e *env) cancelAt(a, b *proc, acquire func(context.Context, string) (*ownership.Tenure, error), point int, mode Failure) bool {
	r := e.name()
	ctx, cancel := context.WithCancel(e.ctx())
	defer cancel()
	var seen atomic.Int64
	var failing sync.Once
	a.Observe(func(req Request) {
		if req.Change && !req.Answered && mode != "" {
			failing.Do(func() { a.Fail(mode, 1) })
		}
		if seen.Add(1) == int64(point) {
			cancel()
		}
	})
	t, err := acquire(ctx, r)
	a.Observe(nil)
	reached := ctx.Err() != nil
	switch {
	case err == nil:
		if s := t.State(); s != ownership.Held {
			e.Fatalf("point %d, failure %q: a tenure that is %s and no error", point, mode, s)
		}
		if err := t.Release(e.ctx()); err != nil {
			e.Fatalf("point %d, failure %q: Release: %v", point, mode, err)
		}
	case !reached && mode == Reject: // one attempt, refused unseen
	case !reached || errors.Is(err, ownership.ErrHeld):
		e.Fatalf("point %d, failure %q: %v", point, mode, err)
	}
	u, err := b.Acquire(e.ctx(), r)
	if err != nil {
		e.Fatalf("point %d, failure %q: a grant was left that nobody holds: %v", point, mode, err)
	}
	if err := u.Release(e.ctx()); err != nil {
		e.Fatal(err)
	}
	return reached
}

// gocql#1308, atlasdb#2988, cqlmigrate#1: a change that times out is neither a
// failure nor a success; it is resolved, and the caller hears the truth.
func testLostAnswers(e *env) {
	for _, mode := range []Failure{LoseAnswer, LoseRequest, Late} {
		for n := 1; n <= 3; n++ { // of the session's opening and of the claim
			a, b := e.process("alice"), e.process("bob")
			a.Fail(mode, n)
			t := a.acquire(e.name())
			e.wantState(t, ownership.Held)
			b.refused(t) // who holds it, and under which token, is what alice thinks
			h, err := a.Holder(e.ctx(), t.Resource())
			if err != nil || h.Owner != t.Owner() || h.Token != t.Token() {
				e.Fatalf("%d times %q: Holder: %v, %v; want %v under token %d", n, mode, h, err, t.Owner(), t.Token())
			}
			a.release(t)
			u := b.take(t.Resource())
			b.release(u)
		}
	}
}

// ShedLock#466: an unknown outcome is reported as unknown, and undone.
func testUnknownIsReported(e *env) {
	a, b := e.process("alice"), e.process("bob")
	keeper := a.take(e.name())
	r := e.name()
	ctx, cancel := context.WithCancel(e.ctx())
	defer cancel()
	var changes atomic.Int64
	a.Fail(LoseAnswer, 1)
	a.Observe(func(req Request) {
		if req.Change && req.Answered && changes.Add(1) == 1 {
			cancel() // applied, and nobody will ever hear of it
		}
	})
	t, err := a.TryAcquire(ctx, r)
	a.Observe(nil)
	if t != nil || !errors.Is(err, ownership.ErrUnknown) {
		e.Fatalf("TryAcquire: %v, %v; want ErrUnknown", t != nil, err)
	}
	if errors.Is(err, ownership.ErrHeld) || errors.Is(err, ownership.ErrInvalid) {
		e.Fatalf("unknown, and something else: %v", err)
	}
	u := b.acquire(r)
	e.wantState(u, ownership.Held)
	e.wantHeld(keeper)
}

// cadence#300: being refused unseen (throttled) is a reason to wait, not to give
// up a tenure or to ask for a new token.
func testThrottledIsBackOff(e *env) {
	a := e.process("alice")
	a.Fail(Reject, 2)
	t := a.acquire(e.name())
	a.Fail(Reject, 1)
	a.Fail(LoseAnswer, 1)
	e.pass(2*e.timing.TTL, "while renewals are refused unseen now and then", func() error { return t.Ensure(0) })
	if got := a.transitions(t); len(got) != 1 {
		e.Fatalf("the tenure went through %v", got)
	}
	h, err := a.Holder(e.ctx(), t.Resource())
	if err != nil || h.Token != t.Token() {
		e.Fatalf("Holder: %v, %v; want token %d", h, err, t.Token())
	}
}

// DESIGN 5: many resources in one attempt: what is free is got, the rest is named.
func testAcquireMany(e *env) {
	a, b := e.process("alice"), e.process("bob")
	var names []string
	for range 20 {
		names = append(names, e.name())
	}
	taken := b.take(names[7])
	ts, err := a.TryAcquireMany(e.ctx(), names)
	var held *ownership.HeldError
	if !errors.As(err, &held) || held.Holder.Resource != names[7] || held.Holder.Owner != taken.Owner() {
		e.Fatalf("TryAcquireMany: %v; want that %v holds %s", err, taken.Owner(), names[7])
	}
	if len(ts) != len(names)-1 {
		e.Fatalf("%d tenures of %d free resources: %v", len(ts), len(names)-1, err)
	}
	seen := make(map[string]bool)
	for _, t := range ts {
		a.own(t)
		e.wantState(t, ownership.Held)
		if seen[t.Resource()] || t.Resource() == names[7] {
			e.Fatalf("%s was granted twice, or to two", t.Resource())
		}
		seen[t.Resource()] = true
		b.refused(t)
	}
	for _, t := range ts {
		a.release(t)
	}
	ts, err = a.TryAcquireMany(e.ctx(), nil)
	if len(ts) != 0 || err != nil {
		e.Fatalf("TryAcquireMany of nothing: %d tenures, %v", len(ts), err)
	}
	for _, bad := range [][]string{{names[0], names[0]}, {names[0], ""}} {
		if ts, err := a.TryAcquireMany(e.ctx(), bad); len(ts) != 0 || !errors.Is(err, ownership.ErrInvalid) {
			e.Fatalf("TryAcquireMany(%q): %d tenures, %v; want ErrInvalid and nothing done", bad, len(ts), err)
		}
	}
	b.take(names[0]) // still free
}
