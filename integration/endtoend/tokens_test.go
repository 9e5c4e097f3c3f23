package endtoend_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/integration/cluster"
	"github.com/tenure-go/tenure/ownership"
)

// DESIGN 8.1: tokens strictly increase over release, crash, expiry, a restart of
// every server, and many fast cycles.
func TestTokensStrictlyIncrease(t *testing.T) {
	b := newBed(t, cluster.Cassandra{}, nil)
	const resource = "shard-7"
	var last ownership.Token
	rises := func(how string, tn *ownership.Tenure) {
		t.Helper()
		if tn.Token() <= last {
			t.Fatalf("after %s: token %d after %d", how, tn.Token(), last)
		}
		last = tn.Token()
	}
	release := func(tn *ownership.Tenure) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := tn.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	a := b.process(t, "a", nil)
	tn := acquire(t, a, resource)
	rises("the first grant", tn)
	release(tn)
	tn = acquire(t, a, resource)
	rises("a release", tn)
	a.crash() // it can renew no more and says nothing: its session expires
	p := b.process(t, "b", nil)
	start := time.Now()
	tn = acquire(t, p, resource)
	rises("a crash, whose session expired", tn)
	figure(t, "taken over %v after the crash, TTL %v", time.Since(start).Round(time.Millisecond), b.cfg.Timing.TTL)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.RevokeForce(ctx, resource); err != nil {
		t.Fatal(err)
	}
	<-tn.Done()
	release(tn)
	tn = acquire(t, p, resource)
	rises("its session was declared dead by force", tn)
	release(tn)

	if b.cluster.CanFault() {
		for _, n := range b.cluster.Nodes() {
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.cluster.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
		q := b.process(t, "c", nil) // one that knows nothing
		tn = acquire(t, q, resource)
		rises("a restart of every server", tn)
		release(tn)
		p = q
	}

	const cycles = 1000
	start = time.Now()
	for i := range cycles {
		tn := acquire(t, p, resource)
		rises(fmt.Sprintf("%d cycles", i), tn)
		release(tn)
	}
	figure(t, "%d cycles of acquire and release in %v, last token %d", cycles, time.Since(start).Round(time.Millisecond), last)
}

// DESIGN 5: an abandoned claim is brought to release or to impossibility; it
// never leaves a grant that nobody holds.
func TestAbandonedClaims(t *testing.T) {
	b := newBed(t, cluster.Cassandra{}, nil)
	p := b.process(t, "impatient", nil)
	var usual time.Duration // of a claim, on this machine now
	for range 10 {
		start := time.Now()
		tn := acquire(t, p, "warm")
		usual = time.Since(start)
		if err := tn.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	n := 200
	if full {
		n = 2000
	}
	outcomes := map[string]int{}
	for i := range n {
		resource := fmt.Sprintf("r-%d", i%20)
		// From before the first byte is sent to well after the answer.
		ctx, cancel := context.WithTimeout(t.Context(), within(rng, 3*usual))
		tn, err := p.TryAcquire(ctx, resource)
		cancel()
		switch {
		case err == nil:
			outcomes["acquired"]++
			rctx, rcancel := context.WithTimeout(t.Context(), within(rng, 2*usual))
			_ = tn.Release(rctx)
			rcancel()
		case errors.Is(err, ownership.ErrUnknown):
			outcomes["unknown"]++
		case errors.Is(err, ownership.ErrHeld):
			t.Fatalf("%s: %v, though nobody else is here", resource, err)
		default:
			outcomes["ended before it was sent"]++
		}
	}
	for i := range 20 {
		resource := fmt.Sprintf("r-%d", i)
		until(t, 20*time.Second, resource+" is vacant", func() bool {
			h, err := p.Holder(t.Context(), resource)
			return err == nil && h.Vacant()
		})
	}
	figure(t, "%d claims, contexts ended at random: %v; every resource vacant afterwards", n, outcomes)
	if outcomes["unknown"] < n/20 {
		t.Errorf("only %d unknown outcomes of %d: the contexts hit too little", outcomes["unknown"], n)
	}
	q := b.process(t, "next", func(c *cassandra.Config) { c.Owner = "next" })
	for i := range 20 {
		acquire(t, q, fmt.Sprintf("r-%d", i))
	}
}

func within(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d) + 1))
}
