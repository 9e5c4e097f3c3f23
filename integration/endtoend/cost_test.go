package endtoend_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/integration/cluster"
	"github.com/tenure-go/tenure/ownership"
)

// The cost of each operation, counted on the wire by the driver's observers.
func TestCostOnTheWire(t *testing.T) {
	b := newBed(t, cluster.Cassandra{}, func(c *cassandra.Config) { c.Timing.Drain = time.Minute })
	p := b.process(t, "counted", nil)
	ctx := t.Context()
	quiet := func() { p.wire.take() }
	only := func(got map[string]int, want map[string]int) bool {
		delete(got, "renew") // of the session, at its own pace; counted below
		return maps.Equal(got, want)
	}
	release := func(tn *ownership.Tenure) {
		t.Helper()
		if err := tn.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}

	quiet()
	tn := acquire(t, p, "first")
	lwt, reads := p.wire.take()
	if !only(lwt, map[string]int{"open": 1, "claim": 1}) || reads != 1 {
		t.Errorf("first acquire of a process: %v, %d reads; want the session's insert, one claim, one read", lwt, reads)
	}
	release(tn)
	lwt, reads = p.wire.take()
	if !only(lwt, map[string]int{"release": 1}) || reads != 0 {
		t.Errorf("release: %v, %d reads; want one LWT and no read", lwt, reads)
	}
	tn = acquire(t, p, "first")
	lwt, reads = p.wire.take()
	if !only(lwt, map[string]int{"claim": 1}) || reads != 0 {
		t.Errorf("acquire of a resource that is known: %v, %d reads; want one LWT and no read", lwt, reads)
	}
	release(tn)
	quiet()
	second := acquire(t, p, "second")
	lwt, reads = p.wire.take()
	if !only(lwt, map[string]int{"claim": 1}) || reads != 1 {
		t.Errorf("acquire of a resource that is not known: %v, %d reads; want one LWT and one read", lwt, reads)
	}

	one := renewals(t, p)
	const many = 1000
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprintf("many-%d", i)
	}
	quiet()
	before := heap()
	goroutines := runtime.NumGoroutine()
	start := time.Now()
	held, err := p.TryAcquireMany(ctx, names)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	lwt, reads = p.wire.take()
	if !only(lwt, map[string]int{"claim": many}) || reads != many {
		t.Errorf("%d resources, a bucket each: %v, %d reads; want one LWT and one read each", many, lwt, reads)
	}
	for _, tn := range held {
		_ = tn.Context() // as its work would
	}
	each := (heap() - before) / many
	thousand := renewals(t, p)
	if one != thousand {
		t.Errorf("%v renewals an interval with 2 tenures, %v with %d", one, thousand, many+2)
	}
	if each > 4096 {
		t.Errorf("%d bytes a tenure; want at most 4096", each)
	}
	if now := runtime.NumGoroutine(); now > goroutines+5 {
		t.Errorf("%d goroutines with %d tenures, %d before", now, many, goroutines)
	}
	figure(t, "%d tenures claimed one by one in %v (%d buckets at a time); %d bytes each; %d goroutines more; renewals in 4 intervals: %d with 2 tenures, %d with %d",
		many, took.Round(time.Millisecond), 16, each, runtime.NumGoroutine()-goroutines, one, thousand, many+2)

	quiet()
	start = time.Now()
	closing, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var work sync.WaitGroup
	for _, tn := range append(held, second) { // their work ends when it is cancelled
		work.Go(func() {
			<-tn.Context().Done()
			if err := tn.Release(closing); err != nil {
				t.Error(err)
			}
		})
	}
	if err := p.Close(closing); err != nil {
		t.Error(err)
	}
	work.Wait()
	lwt, _ = p.wire.take()
	figure(t, "Close: %d tenures cancelled, drained and released in %v: %v", many+1, time.Since(start).Round(time.Millisecond), lwt)
	if !only(lwt, map[string]int{"release": many + 1, "end": 1}) {
		t.Errorf("closing sent %v; want %d releases, one in each bucket, and one end of the session", lwt, many+1)
	}
}

// renewals counts them over four intervals, and whatever else is sent.
func renewals(t *testing.T, p *process) int {
	t.Helper()
	start := p.events.renewed()
	until(t, time.Minute, "a renewal", func() bool { return p.events.renewed() > start })
	p.wire.take()
	start = p.events.renewed()
	until(t, time.Minute, "four renewals", func() bool { return p.events.renewed() >= start+4 })
	lwt, _ := p.wire.take()
	if len(lwt) != 1 {
		t.Errorf("something other than renewals was sent: %v", lwt)
	}
	return lwt["renew"]
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestRenewalCarriesEverything(t *testing.T) {
	b := newBed(t, cluster.Cassandra{}, nil)
	p := b.process(t, "owner", nil)
	tn := acquire(t, p, "shard")
	first := tn.Deadline()
	until(t, 30*time.Second, "two renewals", func() bool { return p.events.renewed() >= 2 })
	if !tn.Deadline().After(first) || tn.State() != ownership.Held {
		t.Errorf("after two renewals the deadline moved from %v to %v, state %s", first, tn.Deadline(), tn.State())
	}
	if n := p.events.count(ownership.Suspect); n != 0 {
		t.Errorf("%d Suspect on a healthy cluster", n)
	}
}
