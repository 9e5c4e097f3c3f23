package lease_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

var (
	simSeeds = flag.Int("sim.seeds", 40, "how many random histories TestRandomHistories runs")
	simSeed  = flag.Uint64("sim.seed", 0, "run only this seed of TestRandomHistories")
)

// TestRandomHistories runs processes that acquire, hold, release, get cut off and
// crash, over a network that loses, delays and repeats, and checks after every
// event that
//
//   - no two tenures of a resource are Held at one instant (on one clock, with no
//     skew, the lease alone gives that),
//   - tokens of a resource strictly increase from tenure to tenure (DESIGN 8.1),
//   - a tenure that is over stays over (8.6),
//
// and, once the faults have ended, that no living session holds a grant without a
// tenure (8.4), that every resource can be acquired, and that nothing is left
// running. A failing seed replays with -sim.seed.
func TestRandomHistories(t *testing.T) {
	seeds := *simSeeds
	if s, err := strconv.Atoi(os.Getenv("TENURE_SIM_SEEDS")); err == nil {
		seeds = s
	}
	first := uint64(1)
	if *simSeed != 0 {
		first, seeds = *simSeed, 1
	}
	var total simCounts
	for seed := first; seed < first+uint64(seeds); seed++ {
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				newSim(t, seed).run(&total)
			})
		})
		if !ok {
			t.Fatalf("replay with: go test ./ownership/lease -run TestRandomHistories -sim.seed=%d", seed)
		}
	}
	t.Logf("%d histories: %+v", seeds, total)
	if *simSeed == 0 && (total.Tenures < 20*seeds || total.Unknowns < 5*seeds || total.Suspects < seeds/2) {
		t.Fatalf("the histories had too little in them to prove anything: %+v", total)
	}
}

type simCounts struct {
	Tenures, Suspects, Lost, Unknowns, Crashes, Revocations int
}

type sim struct {
	t     *testing.T
	rng   *rand.Rand
	store *memory.Store
	names []string

	mu     sync.Mutex
	live   map[string]map[*ownership.Tenure]bool // by resource, not over
	tokens map[string]ownership.Token
	over   map[*ownership.Tenure]bool
	counts simCounts
}

func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)),
		live: map[string]map[*ownership.Tenure]bool{}, tokens: map[string]ownership.Token{}, over: map[*ownership.Tenure]bool{},
	}
	s.store = memory.NewStore(memory.StoreOptions{Buckets: int(seed % 3), Sparse: seed%2 == 0})
	for i := range 4 {
		s.names = append(s.names, fmt.Sprintf("shard-%d", i))
	}
	return s
}

// OnTransition checks the invariants at every change of every tenure.
func (s *sim) OnTransition(e ownership.Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := e.Tenure.Resource()
	if s.over[e.Tenure] {
		s.t.Errorf("%s token %d went from %s to %s after its end", r, e.Tenure.Token(), e.From, e.To)
	}
	switch e.To {
	case ownership.Held:
		if s.live[r] == nil {
			s.live[r] = map[*ownership.Tenure]bool{}
		}
		if e.From == ownership.Acquiring {
			s.counts.Tenures++
			if e.Tenure.Token() <= s.tokens[r] {
				s.t.Errorf("%s: token %d granted after %d", r, e.Tenure.Token(), s.tokens[r])
			}
			s.tokens[r] = e.Tenure.Token()
		}
		s.live[r][e.Tenure] = true
	case ownership.Suspect:
		s.counts.Suspects++
	case ownership.Lost, ownership.Released:
		if e.To == ownership.Lost {
			s.counts.Lost++
		}
		s.over[e.Tenure] = true
		delete(s.live[r], e.Tenure)
	}
}

func (s *sim) OnUnknown(e ownership.UnknownEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Resolved == ownership.Unknown {
		s.counts.Unknowns++
	}
}

// checkExclusive looks at all tenures at one instant of the bubble's clock.
func (s *sim) checkExclusive() {
	s.mu.Lock()
	var all []*ownership.Tenure
	for _, m := range s.live {
		for t := range m {
			all = append(all, t)
		}
	}
	s.mu.Unlock()
	held := map[string]*ownership.Tenure{}
	for _, t := range all {
		if t.State() != ownership.Held {
			continue
		}
		if other := held[t.Resource()]; other != nil {
			s.t.Errorf("%s is held twice: token %d of %s and token %d of %s",
				t.Resource(), t.Token(), t.Owner(), other.Token(), other.Owner())
		}
		held[t.Resource()] = t
	}
}

func (s *sim) rand(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *sim) ms(low, high int) time.Duration {
	return time.Duration(low+s.rand(high-low)) * time.Millisecond
}

// process is one Ownership with its view of the store.
type process struct {
	view *memory.Store
	own  *lease.Ownership
	work sync.WaitGroup
	stop context.CancelFunc
	ctx  context.Context
}

func (s *sim) start(name string) *process {
	p := &process{view: s.store.Client(name)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	var err error
	p.own, err = lease.New(lease.Config{
		Store: p.view, Owner: name, Hooks: ownership.Hooks{s},
		Timing:     ownership.Timing{TTL: 4 * time.Second, RequestTimeout: 500 * time.Millisecond},
		PollEvery:  100 * time.Millisecond,
		AuditEvery: 5 * time.Second,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for range 3 {
		p.work.Add(1)
		go func() {
			defer p.work.Done()
			s.worker(p)
		}()
	}
	return p
}

func (s *sim) worker(p *process) {
	for p.ctx.Err() == nil {
		name := s.names[s.rand(len(s.names))]
		ctx, cancel := context.WithTimeout(p.ctx, s.ms(1, 6000))
		var t *ownership.Tenure
		var err error
		switch s.rand(10) {
		case 0:
			var ts []*ownership.Tenure
			ts, err = p.own.TryAcquireMany(ctx, s.names)
			for _, extra := range ts {
				if t == nil {
					t = extra
				} else {
					_ = extra.Release(ctx)
				}
			}
		case 1, 2, 3:
			t, err = p.own.TryAcquire(ctx, name)
		case 4:
			if s.rand(3) == 0 {
				s.mu.Lock()
				s.counts.Revocations++
				s.mu.Unlock()
				_ = p.own.Revoke(ctx, name)
			}
		default:
			t, err = p.own.Acquire(ctx, name)
		}
		cancel()
		_ = err
		if t != nil {
			hold := time.NewTimer(s.ms(0, []int{300, 3000, 15000}[s.rand(3)]))
			select {
			case <-hold.C:
			case <-t.Done():
			}
			hold.Stop()
			ctx, cancel := context.WithTimeout(context.Background(), s.ms(1, 3000))
			_ = t.Release(ctx)
			cancel()
		}
		time.Sleep(s.ms(1, 300))
	}
}

func (s *sim) fault(p *process) {
	modes := []memory.Mode{memory.Lose, memory.LoseAnswer, memory.Late, memory.Reject, memory.Slow, memory.SlowAnswer, memory.Hang}
	p.view.Inject(memory.Fault{
		Mode: modes[s.rand(len(modes))], Delay: s.ms(1, 3000),
		Nth: 1 + s.rand(4), Times: 1 + s.rand(3),
	})
}

func (s *sim) run(total *simCounts) {
	var all, alive []*process
	for i := range 3 {
		p := s.start(fmt.Sprintf("p%d", i))
		all, alive = append(all, p), append(alive, p)
	}
	for range 300 {
		time.Sleep(s.ms(20, 400))
		s.checkExclusive()
		i := s.rand(len(alive))
		p := alive[i]
		switch s.rand(14) {
		case 0, 1, 2, 3, 4:
			s.fault(p)
		case 5:
			p.view.Cut()
		case 6:
			p.view.Heal()
		case 8:
			if s.rand(4) == 0 { // a crash: it says nothing more, to anybody
				p.view.Cut()
				p.stop()
				s.counts.Crashes++
				alive[i] = s.start(fmt.Sprintf("p%d", len(all)))
				all = append(all, alive[i])
			}
		}
	}
	for _, p := range alive {
		p.stop()
		p.view.Heal()
	}
	for range 200 { // let what is open be settled, while checking
		time.Sleep(100 * time.Millisecond)
		s.checkExclusive()
	}
	ctx := context.Background()
	for _, p := range alive {
		p.work.Wait()
	}
	for _, name := range s.names {
		h, err := alive[0].own.Holder(ctx, name)
		if err != nil || !h.Vacant() {
			s.t.Errorf("after everybody stopped: %v, %v; want vacant: a grant that nobody holds", h, err)
		}
	}
	for _, p := range alive {
		if err := p.own.Close(ctx); err != nil {
			s.t.Errorf("closing: %v", err)
		}
	}
	last := s.start("last")
	last.stop()
	last.work.Wait()
	for _, name := range s.names {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		tn, err := last.own.Acquire(ctx, name)
		if err != nil {
			s.t.Errorf("a fresh process cannot acquire %s: %v", name, err)
		} else if err := tn.Release(ctx); err != nil {
			s.t.Errorf("releasing %s: %v", name, err)
		}
		cancel()
	}
	for _, p := range all { // the crashed ones too, so that the bubble can end
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		_ = p.own.Close(ctx)
		cancel()
	}
	_ = last.own.Close(ctx)
	for _, p := range all {
		p.work.Wait()
	}
	total.Tenures += s.counts.Tenures
	total.Suspects += s.counts.Suspects
	total.Lost += s.counts.Lost
	total.Unknowns += s.counts.Unknowns
	total.Crashes += s.counts.Crashes
	total.Revocations += s.counts.Revocations
}
