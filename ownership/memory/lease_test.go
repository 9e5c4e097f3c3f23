package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
	"github.com/tenure-go/tenure/ownership/ownershiptest"
)

// on makes an Option that puts an Ownership on a view of a store.
func on(s *memory.Store) memory.Option { return func(c *lease.Config) { c.Store = s } }

func newOwnership(t *testing.T, owner string, opts ...memory.Option) *lease.Ownership {
	t.Helper()
	own, err := memory.New(owner, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_ = own.Close(ctx)
	})
	return own
}

// sent returns how many requests of each kind f sent.
func sent(s *memory.Store, f func()) map[memory.Op]int {
	before := s.Counts()
	f()
	diff := make(map[memory.Op]int)
	for op, n := range s.Counts() {
		if n -= before[op]; n > 0 {
			diff[op] = n
		}
	}
	return diff
}

func wantSent(t *testing.T, what string, got map[memory.Op]int, want map[memory.Op]int) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s sent %v, want %v", what, got, want)
	}
}

// DESIGN 5: what each step costs in requests.
func TestCost(t *testing.T) {
	for _, buckets := range []int{0, 4} {
		t.Run(fmt.Sprintf("Buckets=%d", buckets), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testCost(t, buckets) })
		})
	}
}

func testCost(t *testing.T, buckets int) {
	store := memory.NewStore(memory.StoreOptions{Buckets: buckets}).Client("a")
	own := newOwnership(t, "a", on(store))
	ctx := t.Context()
	acquire := func(r string) *ownership.Tenure {
		tenure, err := own.TryAcquire(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return tenure
	}
	acquire("opens the session")
	var tenure *ownership.Tenure
	wantSent(t, "a first acquire", sent(store, func() { tenure = acquire("shard-1") }),
		map[memory.Op]int{memory.OpPeek: 1, memory.OpClaim: 1})
	wantSent(t, "a release", sent(store, func() {
		if err := tenure.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}), map[memory.Op]int{memory.OpRelease: 1})
	wantSent(t, "an acquire of what is known", sent(store, func() { acquire("shard-1") }),
		map[memory.Op]int{memory.OpClaim: 1})

	// Renewal: one a process and interval, whatever the number of tenures.
	interval := ownership.Timing{}.WithDefaults().RenewEvery
	renewals := func() map[memory.Op]int {
		return sent(store, func() {
			time.Sleep(4*interval + interval/2)
			synctest.Wait()
		})
	}
	few := renewals()
	for i := range 1000 {
		acquire(fmt.Sprint("many-", i))
	}
	many := renewals()
	for what, n := range map[string]map[memory.Op]int{"2 tenures": few, "1002 tenures": many} {
		if n[memory.OpRenew] < 4 || n[memory.OpRenew] > 5 || n[memory.OpClaim] > 0 || n[memory.OpGrants] > 0 {
			t.Errorf("4.5 intervals with %s sent %v", what, n)
		}
	}
}

// DESIGN 5, Takeover: one certificate a dead process, not one a resource.
func TestTakeoverWritesOneCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(memory.StoreOptions{})
		dead, heir := store.Client("dead"), store.Client("heir")
		a, b := newOwnership(t, "a", on(dead)), newOwnership(t, "b", on(heir))
		for i := range 5 {
			if _, err := a.TryAcquire(t.Context(), fmt.Sprint("shard-", i)); err != nil {
				t.Fatal(err)
			}
		}
		dead.Cut()
		for i := range 5 {
			if _, err := b.Acquire(t.Context(), fmt.Sprint("shard-", i)); err != nil {
				t.Fatal(err)
			}
		}
		if n := heir.Counts()[memory.OpKill]; n != 1 {
			t.Errorf("%d certificates for one dead process", n)
		}
	})
}

// consul#9469: N waiters spread out: a handover costs few claims, and the plain
// reads that wait for it grow with the number of waiters, not with its square.
func TestWaitersSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 50
		store := memory.NewStore(memory.StoreOptions{})
		var (
			wg     sync.WaitGroup
			mu     sync.Mutex
			claims = make(map[memory.Op]int)
			first  = newOwnership(t, "first", on(store.Client("first")))
		)
		held, err := first.TryAcquire(t.Context(), "shard")
		if err != nil {
			t.Fatal(err)
		}
		for i := range waiters {
			view := store.Client(fmt.Sprint(i))
			own := newOwnership(t, fmt.Sprint(i), on(view))
			wg.Go(func() {
				tenure, err := own.Acquire(t.Context(), "shard")
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				if err := tenure.Release(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for op, n := range view.Counts() {
					claims[op] += n
				}
			})
		}
		time.Sleep(time.Second)
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if n := claims[memory.OpClaim]; n > 4*waiters {
			t.Errorf("%d handovers took %d claims", waiters, n)
		}
		t.Logf("%d waiters, one winner at a time: %v", waiters, claims)
	})
}

// inFlight is a store that notices when one client has two changes of one bucket,
// or of one session, under way at once.
type inFlight struct {
	lease.Store
	t  *testing.T
	mu sync.Mutex
	at map[string]int
}

func (s *inFlight) enter(key string) (leave func()) {
	s.mu.Lock()
	s.at[key]++
	if n := s.at[key]; n > 1 {
		s.t.Errorf("%d changes of %s in flight", n, key)
	}
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.at[key]--
		s.mu.Unlock()
	}
}

func (s *inFlight) Claim(ctx context.Context, c lease.Claim) lease.Result[lease.Bucket] {
	defer s.enter("bucket " + c.Bucket)()
	return s.Store.Claim(ctx, c)
}

func (s *inFlight) Release(ctx context.Context, bucket string, grants []lease.Grant) lease.Result[lease.Bucket] {
	defer s.enter("bucket " + bucket)()
	return s.Store.Release(ctx, bucket, grants)
}

func (s *inFlight) Renew(ctx context.Context, n lease.Session, acknowledge lease.ID) lease.Result[lease.Session] {
	defer s.enter("session " + n.ID.String())()
	return s.Store.Renew(ctx, n, acknowledge)
}

func (s *inFlight) End(ctx context.Context, n lease.Session) lease.Result[lease.Session] {
	defer s.enter("session " + n.ID.String())()
	return s.Store.End(ctx, n)
}

// temporal#2272, DESIGN 5: a process has one change in flight for each bucket and
// for its session; the whole suite runs over a store that takes its time.
func TestOneChangeInFlight(t *testing.T) {
	ownershiptest.Run(t, ownershiptest.Harness{
		New: ownershiptest.OverStore(
			func(*testing.T) lease.Store {
				store := memory.NewStore(memory.StoreOptions{Buckets: 2})
				store.Inject(memory.Fault{Mode: memory.Slow, Delay: 5 * time.Millisecond, Times: -1})
				return store
			},
			func(c *lease.Config) { c.Store = &inFlight{Store: c.Store, t: t, at: make(map[string]int)} }),
		Timing:      ownership.Timing{TTL: 10 * time.Second},
		VirtualTime: true,
	})
}

func TestNewRefusesBadInput(t *testing.T) {
	_, err := memory.New("", func(c *lease.Config) { c.Timing.TTL = -1 }, nil)
	if !errors.Is(err, ownership.ErrInvalid) {
		t.Errorf("New: %v", err)
	}
	if own, ctl, err := memory.NewControlled("a", func(c *lease.Config) {
		c.Store = struct{ lease.Store }{c.Store}
	}); own != nil || ctl != nil || !errors.Is(err, ownership.ErrInvalid) {
		t.Errorf("NewControlled over another store: %v", err)
	}
	if own, ctl, err := memory.NewControlled("a", func(c *lease.Config) { c.Store = nil }); own != nil || ctl != nil || !errors.Is(err, ownership.ErrInvalid) {
		t.Errorf("NewControlled over no store: %v", err)
	}
}
