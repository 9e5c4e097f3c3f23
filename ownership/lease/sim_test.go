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
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

var (
	simSeeds = flag.Int("sim.seeds", 40, "how many random histories TestRandomHistories runs; TENURE_SIM_SEEDS overrides")
	simSeed  = flag.Uint64("sim.seed", 0, "run only this seed of TestRandomHistories")
)

// TestRandomHistories runs processes that acquire, hold, release, revoke, get cut
// off, close and crash, over a network that loses, delays and repeats. All the
// while no two tenures of a resource are Held at one instant, tokens rise (DESIGN
// 8.1) and the end is the end (8.6). Once the faults are over, no living session
// has a grant that nobody holds (8.4), every resource can be acquired, and
// nothing is left running.
func TestRandomHistories(t *testing.T) {
	seeds := *simSeeds
	if s, err := strconv.Atoi(os.Getenv("TENURE_SIM_SEEDS")); err == nil {
		seeds = s
	}
	first := uint64(1)
	if *simSeed != 0 {
		first, seeds = *simSeed, 1
	}
	var total tally
	for seed := first; seed < first+uint64(seeds); seed++ {
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			opts := memory.StoreOptions{Buckets: int(seed % 3), Sparse: seed%2 == 0, MaxBatch: int(1 + seed%5)}
			scenarioOn(t, opts, func(w *world) {
				s := &sim{world: w, rng: rand.New(rand.NewPCG(seed, 1))}
				s.run()
				total.Tenures += w.counts.Tenures
				total.Suspects += w.counts.Suspects
				total.Lost += w.counts.Lost
				total.Unknowns += w.counts.Unknowns
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

type sim struct {
	*world
	rng   *rand.Rand
	rngMu sync.Mutex
	names []string
	live  []*worker
	all   []*worker
}

// worker is a process with a few goroutines that use it.
type worker struct {
	*process
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
}

func (s *sim) rand(n int) int {
	s.rngMu.Lock()
	defer s.rngMu.Unlock()
	return s.rng.IntN(n)
}

func (s *sim) ms(low, high int) time.Duration {
	return time.Duration(low+s.rand(high-low)) * time.Millisecond
}

func (s *sim) start() *worker {
	p := &worker{process: s.process(fmt.Sprintf("p%d", len(s.all)), func(c *lease.Config) {
		c.Timing = ownership.Timing{TTL: 4 * time.Second, RequestTimeout: 500 * time.Millisecond}
		c.AuditEvery = 5 * time.Second
	})}
	s.all = append(s.all, p)
	p.ctx, p.stop = context.WithCancel(context.Background())
	for range 3 {
		p.work.Go(func() { s.use(p) })
	}
	return p
}

func (s *sim) use(p *worker) {
	for p.ctx.Err() == nil {
		name := s.names[s.rand(len(s.names))]
		ctx, cancel := context.WithTimeout(p.ctx, s.ms(1, 6000))
		var got []*ownership.Tenure
		var t *ownership.Tenure
		switch s.rand(20) {
		case 0, 1:
			got, _ = p.TryAcquireMany(ctx, s.names)
		case 2, 3, 4, 5, 6, 7:
			t, _ = p.TryAcquire(ctx, name)
		case 8:
			_ = p.Revoke(ctx, name)
		case 9:
			if s.rand(3) == 0 {
				_ = p.RevokeForce(ctx, name)
			}
		default:
			t, _ = p.Acquire(ctx, name)
		}
		cancel()
		if t != nil {
			got = append(got, t)
		}
		for i, t := range got {
			s.hold(t, i == 0)
		}
		time.Sleep(s.ms(1, 300))
	}
}

// hold works under the tenure for a while, or not at all, and gives it back.
func (s *sim) hold(t *ownership.Tenure, work bool) {
	if work {
		timer := time.NewTimer(s.ms(0, []int{300, 3000, 15000}[s.rand(3)]))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.ms(1, 3000))
	defer cancel()
	_ = t.Release(ctx)
}

func (s *sim) fault(p *worker) {
	p.view.Inject(memory.Fault{
		Mode: modes[s.rand(len(modes))], Delay: s.ms(1, 3000),
		Nth: 1 + s.rand(4), Times: 1 + s.rand(3),
	})
}

// event lets something happen to one of the processes.
func (s *sim) event() {
	i := s.rand(len(s.live))
	p := s.live[i]
	switch s.rand(16) {
	case 0, 1, 2, 3, 4, 5:
		s.fault(p)
	case 6:
		p.view.Cut()
	case 7, 8:
		p.view.Heal()
	case 9:
		if s.rand(4) == 0 {
			p.crash()
			p.stop()
			s.live[i] = s.start()
		}
	case 10:
		if s.rand(4) == 0 { // an orderly end, in whatever state it is
			p.stop()
			ctx, cancel := context.WithTimeout(context.Background(), s.ms(1, 8000))
			_ = p.Close(ctx)
			cancel()
			s.live[i] = s.start()
		}
	}
}

func (s *sim) run() {
	for i := range 4 {
		s.names = append(s.names, fmt.Sprintf("shard-%d", i))
	}
	for range 3 {
		s.live = append(s.live, s.start())
	}
	for range 300 {
		time.Sleep(s.ms(20, 400))
		s.noTwoHeld()
		s.event()
	}
	for _, p := range s.live {
		p.stop()
		p.view.Heal()
	}
	s.pass(20 * time.Second) // what is open is settled
	for _, p := range s.live {
		p.work.Wait()
	}
	s.noGhost(s.names...)
	ctx := context.Background()
	for _, name := range s.names {
		if h, err := s.live[0].Holder(ctx, name); err != nil || !h.Vacant() {
			s.Errorf("after everybody stopped: %v, %v; want vacant", h, err)
		}
	}
	for _, p := range s.live {
		if err := p.Close(ctx); err != nil {
			s.Errorf("closing: %v", err)
		}
	}
	last := s.process("last")
	for _, name := range s.names {
		s.release(last.acquire(name))
	}
	for _, p := range s.all { // the crashed ones too, so that the bubble can end
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		_ = p.Close(ctx)
		cancel()
		p.work.Wait()
	}
}
