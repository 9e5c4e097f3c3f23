package lease_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// reads are the requests that change nothing.
var reads = []memory.Op{memory.OpSession, memory.OpGrants, memory.OpPeek, memory.OpPeekSession}

// DESIGN 3, 5: an acquisition is one change, after one plain read where nothing is
// known of the resource; a release is one. The first one of a process opens its
// session, too.
func TestCostOfOneTenure(t *testing.T) {
	for name, opts := range stores {
		t.Run(name, func(t *testing.T) {
			scenarioOn(t, opts, func(w *world) {
				p := w.process("p")
				cost := func(what string, changed, read int, do func()) {
					t.Helper()
					c, r := p.count(changes...), p.count(reads...)
					do()
					if c, r := p.count(changes...)-c, p.count(reads...)-r; c != changed || r != read {
						t.Errorf("%s: %d changes and %d reads, want %d and %d", what, c, r, changed, read)
					}
				}
				var a, b *ownership.Tenure
				cost("the first acquisition", 2, 1, func() { a = p.try("a") })
				cost("another resource", 1, 1, func() { b = p.try("b") })
				cost("a release", 1, 0, func() { w.release(a) })
				cost("acquiring it again", 1, 0, func() { a = p.try("a") })
				for range 100 {
					cost("a cycle", 2, 0, func() {
						w.release(a)
						a = p.acquire("a")
					})
				}
				cost("an interval", 1, 0, func() { w.pass(renewal) })
				cost("another try of our own", 0, 0, func() { p.refused("a") })
				cost("two releases and Close", 3, 0, func() {
					for _, tenure := range []*ownership.Tenure{a, b} {
						go func() {
							time.Sleep(poll)
							_ = tenure.Release(context.Background())
						}()
						time.Sleep(poll)
					}
					w.pass(2 * poll)
					_ = p.Close(context.Background())
				})
				q := w.process("q")
				cost = func(what string, changed, read int, do func()) {
					t.Helper()
					c, r := q.count(changes...), q.count(reads...)
					do()
					if c, r := q.count(changes...)-c, q.count(reads...)-r; c != changed || r > read {
						t.Errorf("%s: %d changes and %d reads, want %d and at most %d", what, c, r, changed, read)
					}
				}
				z := w.process("z")
				held := z.acquire("a")
				q.acquire("c")
				cost("what somebody holds", 0, 3, func() { q.refused("a") })
				w.release(held)
				z.acquire("a")
				z.crash()
				w.pass(ttl)
				renewals := q.count(memory.OpRenew)
				cost("a takeover", 2, 2, func() { q.try("a") })
				if q.count(memory.OpRenew) != renewals {
					t.Fatal("a renewal came in between")
				}
			})
		})
	}
}

// DESIGN 3: "renewal costs a process one small request, for 1 or 100,000 resources":
// one for each interval, and one goroutine for it and one for the audit, whatever
// the number of tenures.
func TestCostOfAThousandTenures(t *testing.T) {
	const intervals = 10
	var goroutines []int
	for _, n := range []int{1, 1000} {
		for name, opts := range stores {
			scenarioOn(t, opts, func(w *world) {
				p := w.process("p", func(c *lease.Config) { c.AuditEvery = 24 * time.Hour })
				tenures, err := p.TryAcquireMany(w.within(time.Minute), numbered("r", n))
				if err != nil {
					t.Fatal(err)
				}
				sent := p.count(append(slices.Clone(changes), reads...)...)
				if claims := p.count(memory.OpClaim); claims > n || opts.Buckets == 1 && claims != (n+249)/250 {
					t.Errorf("%s: %d claims for %d resources", name, claims, n)
				}
				w.pass(intervals * renewal)
				sent = p.count(append(slices.Clone(changes), reads...)...) - sent
				if renewals := p.count(memory.OpRenew); sent != renewals || renewals < intervals-1 || renewals > intervals {
					t.Errorf("%s: %d requests and %d renewals in %d intervals with %d tenures", name, sent, renewals, intervals, n)
				}
				for _, tenure := range tenures {
					w.wantState(tenure, ownership.Held)
				}
				goroutines = append(goroutines, ours())
			})
		}
	}
	if slices.Min(goroutines) != 2 || slices.Max(goroutines) != 2 {
		t.Errorf("goroutines with 1 and with 1,000 tenures: %v, want 2", goroutines)
	}
}

// ours counts the goroutines that package lease has started.
func ours() (n int) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(stack, "/ownership/lease.(*session).") && strings.Contains(stack, "created by sync.(*WaitGroup).Go") {
			n++
		}
	}
	return n
}

// A thousand tenures take at most 4 KiB each, everything included: tenure, slot,
// grant, what is known of its bucket, and its share of the session.
func TestMemoryOfAThousandTenures(t *testing.T) {
	const n, limit = 1000, 4 << 10
	for name, opts := range stores {
		t.Run(name, func(t *testing.T) {
			own, err := memory.New("p", func(c *lease.Config) { c.Store = heapless{memory.NewStore(opts)} })
			if err != nil {
				t.Fatal(err)
			}
			names := numbered("r", n)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			before := heap()
			tenures, err := own.TryAcquireMany(ctx, names)
			if err != nil || len(tenures) != n {
				t.Fatal(len(tenures), err)
			}
			for _, tenure := range tenures {
				_ = tenure.Context() // as work would ask for
			}
			each := (heap() - before) / n
			t.Logf("%d bytes for each tenure", each)
			if each > limit {
				t.Errorf("%d bytes for each tenure, want at most %d", each, limit)
			}
			for _, tenure := range tenures {
				if err := tenure.Release(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if err := own.Close(ctx); err != nil {
				t.Error(err)
			}
			runtime.KeepAlive(own)
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// heapless answers every claim without keeping anything, so that the heap shows what
// package lease keeps.
type heapless struct{ lease.Store }

func (heapless) Claim(context.Context, lease.Claim) lease.Result[lease.Bucket] {
	return lease.Applied[lease.Bucket]()
}

func (heapless) Release(context.Context, string, []lease.Grant) lease.Result[lease.Bucket] {
	return lease.Applied[lease.Bucket]()
}

// What is kept of resources that nobody uses any more is bounded.
func TestMemoryOfManyNames(t *testing.T) {
	if testing.Short() {
		t.Skip("acquires 24,000 resources; leave -short away")
	}
	for name, opts := range stores {
		t.Run(name, func(t *testing.T) {
			own, err := memory.New("p", func(c *lease.Config) { c.Store = heapless{memory.NewStore(opts)} })
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			use := func(from, to int) {
				for i := from; i < to; i += 250 {
					tenures, err := own.TryAcquireMany(ctx, numbered(fmt.Sprintf("r%d", i), 250))
					if err != nil {
						t.Fatal(err)
					}
					for _, tenure := range tenures {
						_ = tenure.Release(ctx)
					}
				}
			}
			use(0, 12_000)
			before := heap()
			use(12_000, 24_000)
			grown := int64(heap() - before)
			if t.Logf("%d KiB", grown>>10); grown > 256<<10 {
				t.Errorf("12,000 further names took %d KiB for good", grown>>10)
			}
			if err := own.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
