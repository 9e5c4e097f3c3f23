package endtoend_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/integration/cluster"
	"github.com/tenure-go/tenure/ownership"
)

// DESIGN 5: one frozen or dead node, the coordinator of the session included,
// must not cost a tenure. Default timings.
func TestOneNodeFrozenThenOneKilled(t *testing.T) {
	b := newBed(t, cluster.Cassandra{}, func(c *cassandra.Config) { c.Timing = ownership.Timing{} })
	if !b.cluster.CanFault() {
		t.Skip("the servers come from the environment and cannot be frozen; unset TENURE_CASSANDRA to run this on processes of its own")
	}
	const tenures = 20
	const outage = 30 * time.Second
	var processes []*process
	var held []*ownership.Tenure
	for i := range 3 { // several sessions, so that several coordinators are hit
		p := b.process(t, fmt.Sprintf("owner-%d", i), nil)
		for j := range tenures {
			held = append(held, acquire(t, p, fmt.Sprintf("shard-%d-%d", i, j)))
		}
		processes = append(processes, p)
	}
	for _, p := range processes {
		until(t, time.Minute, "every session was renewed once", func() bool { return p.wire.lastRenewer() != "" })
	}
	faults := []struct {
		name string
		do   func(*cluster.Node) error
	}{{"frozen", (*cluster.Node).Freeze}, {"killed", (*cluster.Node).Kill}}
	for _, f := range faults {
		coordinator := processes[0].wire.lastRenewer()
		node := nodeAt(t, b.cluster, coordinator)
		shared := 0
		for _, p := range processes {
			if p.wire.lastRenewer() == coordinator {
				shared++
			}
		}
		if err := f.do(node); err != nil {
			t.Fatal(err)
		}
		before := processes[0].events.renewed()
		over := time.NewTimer(outage)
		<-over.C
		renewed := processes[0].events.renewed() - before
		if err := b.cluster.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
		suspects, lost := 0, 0
		for _, p := range processes {
			suspects += p.events.count(ownership.Suspect)
			lost += p.events.count(ownership.Lost)
		}
		figure(t, "%s for %v: coordinator of %d of 3 sessions; %d renewals of the first one went on; so far %d Suspect, %d Lost",
			f.name, outage, shared, renewed, suspects, lost)
	}
	for _, tn := range held {
		if s := tn.State(); s != ownership.Held {
			t.Errorf("%s is %s after one node was frozen and one killed: %v", tn.Resource(), s, tn.Err())
		}
	}
}

func nodeAt(t testing.TB, c *cluster.Cluster, address string) *cluster.Node {
	t.Helper()
	for _, n := range c.Nodes() {
		if n.Address() == address {
			return n
		}
	}
	t.Fatalf("no node at %q among %v", address, c.Addresses())
	return nil
}

// DESIGN 2.4, 8.5: without a quorum a tenure is Suspect by its safe deadline and
// Lost when the hard deadline and the grace have passed; no call outlives its
// context; and everything recovers by itself when the quorum is back.
func TestTwoOfThreeNodesDead(t *testing.T) {
	b := newBed(t, cluster.Cassandra{}, nil)
	if !b.cluster.CanFault() {
		t.Skip("the servers come from the environment and cannot be killed; unset TENURE_CASSANDRA to run this on processes of its own")
	}
	p := b.process(t, "owner", nil)
	other := b.process(t, "waiter", nil)
	timing := b.cfg.Timing
	timing.Granularity = time.Second
	timing = timing.WithDefaults()
	var held []*ownership.Tenure
	for i := range 10 {
		held = append(held, acquire(t, p, fmt.Sprintf("shard-%d", i)))
	}
	for _, n := range b.cluster.Nodes()[1:] {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	killed := time.Now()
	outage := timing.TTL + timing.Grace + 10*time.Second
	ended := time.NewTimer(time.Until(killed.Add(outage)))
	defer ended.Stop()

	// A call that waits through the outage, to see the recovery.
	waiting := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		tn, err := other.Acquire(ctx, "shard-0")
		if err == nil && tn.Token() <= held[0].Token() {
			err = fmt.Errorf("token %d after %d", tn.Token(), held[0].Token())
		}
		waiting <- err
	}()

	// Calls during the outage.
	var slowest time.Duration
	var mu sync.Mutex
	var calls sync.WaitGroup
	stop := make(chan struct{})
	bounded := func(name string, limit time.Duration, call func(context.Context) error) {
		calls.Add(1)
		go func() {
			defer calls.Done()
			for {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				start := time.Now()
				_ = call(ctx)
				over := time.Since(start) - limit
				cancel()
				mu.Lock()
				slowest = max(slowest, over)
				mu.Unlock()
				if over > time.Second {
					t.Errorf("%s outlived its context by %v", name, over)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	bounded("TryAcquire", time.Second, func(ctx context.Context) error { _, err := other.TryAcquire(ctx, "shard-1"); return err })
	bounded("Acquire", 700*time.Millisecond, func(ctx context.Context) error { _, err := p.Acquire(ctx, "fresh"); return err })
	bounded("Holder", 500*time.Millisecond, func(ctx context.Context) error { _, err := other.Holder(ctx, "shard-2"); return err })
	bounded("Revoke", 900*time.Millisecond, func(ctx context.Context) error { return other.Revoke(ctx, "shard-3") })
	bounded("Watch", 800*time.Millisecond, func(ctx context.Context) error {
		for _, err := range other.Watch(ctx, "shard-4") {
			_ = err
		}
		return nil
	})

	suspectBy := timing.TTL + time.Second // the last renewal was sent before the kill
	until(t, suspectBy, "all tenures left Held", func() bool { return p.events.count(ownership.Suspect) >= len(held) })
	suspect := time.Since(killed)
	if err := held[0].Ensure(0); !errors.Is(err, ownership.ErrSuspect) && !errors.Is(err, ownership.ErrLost) {
		t.Errorf("Ensure in the outage: %v; want Suspect", err)
	}
	until(t, time.Until(killed.Add(timing.TTL+timing.Grace+2*time.Second)), "all tenures are Lost", func() bool {
		return p.events.count(ownership.Lost) >= len(held)
	})
	lost := time.Since(killed)
	<-ended.C
	close(stop)
	calls.Wait()
	p.events.mu.Lock()
	for _, l := range p.events.late {
		t.Error(l)
	}
	p.events.mu.Unlock()

	healing := time.Now()
	if err := b.cluster.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("the waiter that waited through the outage: %v", err)
	}
	for i := 1; i < len(held); i++ {
		tn := acquire(t, p, fmt.Sprintf("shard-%d", i))
		if tn.Token() <= held[i].Token() {
			t.Errorf("%s: token %d after %d", tn.Resource(), tn.Token(), held[i].Token())
		}
	}
	figure(t, "TTL %v, grace %v: all Suspect %v after the kill, all Lost after %v; no call outlived its context by more than %v; owned again %v after healing began",
		timing.TTL, timing.Grace, suspect.Round(time.Millisecond), lost.Round(time.Millisecond), slowest.Round(time.Millisecond), time.Since(healing).Round(time.Millisecond))
}
