package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// DESIGN 5, claim: many free resources of a bucket are one request, under one token.
// The tenures come in the order asked for.
func TestManyAreOneClaim(t *testing.T) {
	scenarioOn(t, memory.StoreOptions{Buckets: 1, MaxBatch: 4}, func(w *world) {
		p := w.process("p")
		names := numbered("r", 10)
		slices.Reverse(names)
		got, err := p.TryAcquireMany(w.within(time.Minute), names)
		if err != nil || len(got) != len(names) {
			t.Fatalf("%d tenures, %v", len(got), err)
		}
		tokens := map[ownership.Token]int{}
		for i, tenure := range got {
			w.wantState(tenure, ownership.Held)
			tokens[tenure.Token()]++
			if tenure.Resource() != names[i] {
				t.Errorf("tenure %d is of %s, want %s", i, tenure.Resource(), names[i])
			}
		}
		if n := p.count(memory.OpClaim); n != 3 || tokens[1] != 4 || tokens[2] != 4 || tokens[3] != 2 {
			t.Errorf("%d claims for ten resources in batches of four, tokens %v", n, tokens)
		}
		p.view.Inject(memory.Fault{Op: memory.OpRelease, Mode: memory.SlowAnswer, Delay: poll, Times: -1})
		for _, tenure := range got {
			go func() { _ = tenure.Release(context.Background()) }()
		}
		w.pass(renewal)
		if n := p.count(memory.OpRelease); n > 4 { // the first of them went alone
			t.Errorf("%d releases for ten resources in batches of four", n)
		}
	})
}

// What somebody else holds is said, and does not stand in the way of the rest.
func TestManySomeAreHeld(t *testing.T) {
	for name, opts := range stores {
		t.Run(name, func(t *testing.T) {
			scenarioOn(t, opts, func(w *world) {
				p, q := w.process("p"), w.process("q")
				q.acquire("b")
				p.acquire("c")
				got, err := p.TryAcquireMany(w.within(time.Minute), []string{"a", "b", "c", "d"})
				if len(got) != 2 || got[0].Resource() != "a" || got[1].Resource() != "d" || !errors.Is(err, ownership.ErrHeld) {
					t.Fatalf("%v, %v; want a and d", got, err)
				}
				for _, r := range []string{"acquiring b: b is held by q#", "acquiring c: c is held by p#"} {
					if !strings.Contains(err.Error(), r) {
						t.Errorf("the error does not say %q: %v", r, err)
					}
				}
			})
		})
	}
}

// Two calls that want the same resources in another order do not wait for each
// other for ever.
func TestManyCrosswise(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p", func(c *lease.Config) { c.Store = slowBuckets{c.Store} })
		names := numbered("r", 20)
		back := slices.Clone(names)
		slices.Reverse(back)
		done := make(chan int)
		for _, order := range [][]string{names, back} {
			go func() {
				got, _ := p.TryAcquireMany(w.within(time.Minute), order)
				for _, tenure := range got {
					_ = tenure.Release(context.Background())
				}
				done <- len(got)
			}()
		}
		if total := <-done + <-done; total < len(names) {
			t.Fatalf("only %d of %d were got", total, len(names))
		}
	})
}

// slowBuckets lets every other goroutine run between two resources of one call.
type slowBuckets struct{ lease.Store }

func (s slowBuckets) Bucket(resource string) string {
	time.Sleep(time.Millisecond)
	return s.Store.Bucket(resource)
}

// DESIGN 7: every fault of the input at once, before anything is sent.
func TestManyBadNames(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		got, err := p.TryAcquireMany(w.within(time.Minute), []string{"a", "", "b", "a", "\xff"})
		if len(got) != 0 || !errors.Is(err, ownership.ErrInvalid) {
			t.Fatalf("%v, %v", got, err)
		}
		if faults := strings.Split(err.Error(), "\n"); len(faults) != 3 {
			t.Errorf("%d faults, want three: %v", len(faults), err)
		}
		if n := p.count(slices.Concat(changes, []memory.Op{memory.OpPeek, memory.OpGrants})...); n > 0 {
			t.Errorf("%d requests were sent", n)
		}
		if got, err := p.TryAcquireMany(w.within(time.Minute), nil); len(got) != 0 || err != nil {
			t.Errorf("none asked for: %v, %v", got, err)
		}
	})
}

// DESIGN 5 and kubernetes#22775: equal names are rivals all the same, in two
// processes and within one.
func TestEqualNamesAreRivals(t *testing.T) {
	scenario(t, func(w *world) {
		first, second := w.process("same"), w.process("same")
		tenure := first.acquire("a")
		if h := second.refused("a"); h.Owner != first.Owner() || h.Owner == second.Owner() {
			t.Errorf("held by %v", h.Owner)
		}
		if h := first.refused("a"); h.Owner != first.Owner() || h.Token != tenure.Token() {
			t.Errorf("held by %v", h)
		}
		ctx := w.within(timeout)
		if got, err := first.Acquire(ctx, "a"); got != nil || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ownership.ErrHeld) {
			t.Errorf("a second Acquire of one process: %v, %v", got, err)
		}
	})
}

// DESIGN 8.1: tokens of one resource strictly increase, over release, crash, expiry,
// revocation and 1,000 fast cycles. The witness compares every grant.
func TestTokensRise(t *testing.T) {
	for name, opts := range stores {
		t.Run(name, func(t *testing.T) {
			scenarioOn(t, opts, func(w *world) {
				p, q := w.process("p"), w.process("q")
				for range 1000 {
					w.release(p.acquire("a"))
				}
				tenure := q.acquire("a")
				if tenure.Token() != 1001 {
					t.Errorf("token %d after 1000 cycles", tenure.Token())
				}
				q.crash()
				w.release(p.acquire("a"))
				p.acquire("a")
				operator := w.process("operator")
				if err := operator.RevokeForce(w.within(time.Minute), "a"); err != nil {
					t.Fatal(err)
				}
				operator.acquire("a")
			})
		})
	}
}

// DESIGN 5: TokenFloor for restored clusters: every token is above it, also those
// that follow, and also where the bucket's own count is higher already.
func TestTokenFloor(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p", func(c *lease.Config) { c.TokenFloor = 1000 })
		tenure := p.acquire("a")
		if tenure.Token() <= 1000 {
			t.Errorf("token %d, want more than 1000", tenure.Token())
		}
		w.release(tenure)
		q := w.process("q")
		if next := q.acquire("a"); next.Token() <= tenure.Token() {
			t.Errorf("token %d after %d", next.Token(), tenure.Token())
		}
		low := w.process("low", func(c *lease.Config) { c.TokenFloor = 5 })
		if h := low.refused("a"); h.Fence <= 1000 {
			t.Errorf("%v", h)
		}
	})
}

// DESIGN 7: a configuration that cannot work is refused, all faults at once.
func TestConfigIsChecked(t *testing.T) {
	_, err := lease.New(lease.Config{
		Owner: "", Timing: ownership.Timing{TTL: time.Second, RenewEvery: time.Second},
		PollEvery: time.Microsecond, AuditEvery: 1000 * time.Hour, LockDelay: -1, TokenFloor: lease.MaxTokenFloor + 1,
	})
	if !errors.Is(err, ownership.ErrInvalid) {
		t.Fatal(err)
	}
	for _, field := range []string{"Store", "owner", "Timing.RenewEvery", "PollEvery", "AuditEvery", "LockDelay", "TokenFloor"} {
		if !strings.Contains(err.Error(), field+" is ") {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
	_, err = lease.New(lease.Config{Owner: "p", Store: wholeSeconds{memory.NewStore(memory.StoreOptions{})}, Timing: ownership.Timing{TTL: 2500 * time.Millisecond}})
	if !errors.Is(err, ownership.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "must be a multiple of 1s") {
		t.Errorf("a TTL of 2.5 s where seconds are counted: %v", err)
	}
}

type wholeSeconds struct{ lease.Store }

func (wholeSeconds) Limits() lease.Limits {
	return lease.Limits{Granularity: time.Second, WholeTTL: time.Second, MaxBatch: 1}
}
