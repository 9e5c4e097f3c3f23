package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// TestStress lets everybody who can touch a tenure do so at once, at random: the
// driver's proofs and doubts, queries, releases, suspends of the machine, and the
// tenure's own timer. Run it with -race. To go over one choice of events again:
//
//	go test -race -run TestStress -seed N ./ownership
func TestStress(t *testing.T) {
	const tenures, actors, steps = 200, 4, 60
	t.Logf("seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 3))
	periods, lived := 0, 0
	for i := range tenures {
		s := &stress{T: t, id: i, told: make(chan struct{})}
		s.rig = newRig(
			withHooks(hookFunc(s.onTransition)),
			func(cfg *ownership.DriverConfig) {
				if i%3 == 0 {
					cfg.Stall = 2 * time.Millisecond
				}
				cfg.Free = s.free
			})
		s.base = s.Now()
		var done sync.WaitGroup
		for range actors {
			mine := rand.New(rand.NewPCG(random.Uint64(), 0))
			done.Go(func() {
				for range steps {
					s.act(mine)
				}
			})
		}
		done.Wait()
		lived += s.finish()
		periods += s.periods
		if t.Failed() {
			t.Fatalf("tenure %d of seed %d", i, *seed)
		}
	}
	t.Logf("%d tenures, %d periods of Held, %d contexts seen alive", tenures, periods, lived)
	if periods < 2*tenures || lived < tenures {
		t.Errorf("seed %d: so few periods that this proves little", *seed)
	}
}

type stress struct {
	*testing.T
	*rig
	id        int
	freeCalls atomic.Int32
	abandoned atomic.Bool
	maxSafe   atomic.Int64 // the furthest safe deadline that any proof gave, from base
	base      time.Time

	mu       sync.Mutex
	told     chan struct{}   // closed when the hooks have heard of the end
	last     ownership.State // as the hooks know it
	periods  int             // of Held
	contexts map[context.Context]bool
}

// onTransition: events come one at a time, in an order that the table of DESIGN 2
// allows, and everything but Held has a cause.
func (s *stress) onTransition(e ownership.Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == 0 {
		s.last = ownership.Acquiring
	}
	legal := map[ownership.State][]ownership.State{
		ownership.Acquiring: {ownership.Held, ownership.Lost},
		ownership.Held:      {ownership.Suspect, ownership.Lost, ownership.Released},
		ownership.Suspect:   {ownership.Held, ownership.Lost},
	}
	ok := false
	for _, to := range legal[s.last] {
		ok = ok || to == e.To
	}
	if !ok || e.From != s.last || (e.Cause == nil) != (e.To == ownership.Held) {
		s.Errorf("after %v came %v → %v, cause %v", s.last, e.From, e.To, e.Cause)
	}
	s.last = e.To
	if e.To == ownership.Held {
		s.periods++
	}
	e.Tenure.State() // hooks may call back
	if e.To.Terminal() {
		close(s.told) // once, or it panics: nothing follows the end
	}
}

func (s *stress) free(done func(error)) {
	s.freeCalls.Add(1)
	if !s.tenure.State().Terminal() {
		s.Error("given back before its end")
	}
	if s.id%2 == 0 {
		done(nil)
	} else {
		go done(nil)
	}
}

func (s *stress) act(random *rand.Rand) {
	short := func() time.Duration { return time.Duration(random.Int64N(int64(2 * time.Millisecond))) }
	cause := fmt.Errorf("cause %d", random.IntN(1000))
	over := s.tenure.State().Terminal()
	switch n := random.IntN(100); {
	case n < 30:
		now := s.Now().Add(-short() / 2)
		safe := now.Add(2 * short())
		mine := int64(safe.Sub(s.base))
		for known := s.maxSafe.Load(); mine > known && !s.maxSafe.CompareAndSwap(known, mine); {
			known = s.maxSafe.Load()
		}
		if got := s.Confirm(safe, safe.Add(short())); over && !got.Terminal() {
			s.Errorf("a proof revived it: %v", got)
		}
	case n < 60:
		now := s.Now()
		work := s.tenure.Context()
		alive := work.Err() == nil
		if alive && over {
			s.Error("work is alive after the end")
		}
		if alive && int64(now.Sub(s.base)) >= s.maxSafe.Load() {
			s.Error("work is alive past every deadline that a proof gave")
		}
		s.mu.Lock()
		if s.contexts == nil {
			s.contexts = map[context.Context]bool{}
		}
		s.contexts[work] = s.contexts[work] || alive
		s.mu.Unlock()
	case n < 70:
		now := s.Now()
		if err := s.tenure.Ensure(0); err == nil && (over || int64(now.Sub(s.base)) >= s.maxSafe.Load()) {
			s.Error("held past every deadline that a proof gave")
		} else if err != nil && !errors.Is(err, ownership.ErrNotHeld) {
			s.Error(err)
		}
	case n < 78:
		s.Doubt(cause)
	case n < 88:
		s.clock.Suspend(short())
	case n < 92:
		s.tenure.Progress()
	case n < 96:
		time.Sleep(short() / 4)
		if err := s.tenure.Err(); over && err == nil {
			s.Error("over, and Err is nil")
		}
	case random.IntN(6) > 0: // the following end it
		runtime.Gosched()
	case n < 98:
		err := s.tenure.Release(ended())
		if err != nil && !errors.Is(err, ownership.ErrUnknown) && !s.abandoned.Load() {
			s.Error(err)
		}
	case n == 98:
		s.Lose(cause)
	case random.IntN(4) > 0:
		s.End(cause)
	default:
		s.abandoned.Store(true)
		s.Abandon(cause)
	}
}

// finish ends the tenure, if need be, and looks at what is left. It returns how
// many contexts were seen alive.
func (s *stress) finish() (lived int) {
	s.Lose(ownership.ErrRefused)
	_ = s.tenure.Release(ended())
	<-s.Freed()
	<-s.told
	select {
	case <-s.tenure.Done():
	default:
		s.Error("over, and Done is open")
	}
	if calls := s.freeCalls.Load(); calls > 1 || calls == 0 && !s.abandoned.Load() {
		s.Errorf("Free was called %d times", calls)
	}
	for work, alive := range s.contexts {
		var cause *ownership.NotHeldError
		if work.Err() == nil || !errors.As(context.Cause(work), &cause) {
			s.Errorf("a context is left with err %v, cause %v", work.Err(), context.Cause(work))
		}
		if alive {
			lived++
		}
	}
	if lived > s.periods {
		s.Errorf("%d contexts were alive in %d periods", lived, s.periods)
	}
	return lived
}

// The figure of the project: at most 4 KiB a tenure and no goroutine. Here, with
// its context asked for, a timer armed and a name of its own; what an adapter
// adds is the adapter's to measure.
func TestSizeOfATenure(t *testing.T) {
	const n, limit = 10_000, 1536
	measure := func() (heap uint64, goroutines int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	drivers := make([]*ownership.Driver, n)
	before, goroutines := measure()
	for i := range drivers {
		d := ownership.NewDriver(ownership.DriverConfig{
			Resource: fmt.Sprintf("shard-%d", i), Token: 1, Stall: time.Hour, Free: func(done func(error)) { done(nil) }})
		d.Confirm(d.Now().Add(time.Hour), d.Now().Add(2*time.Hour))
		if d.Tenure().Context().Err() != nil {
			t.Fatal("not held")
		}
		drivers[i] = d
	}
	after, now := measure()
	each := (after - before) / n
	t.Logf("%d bytes a tenure, %d goroutines more", each, now-goroutines)
	if each > limit || now > goroutines {
		t.Errorf("a tenure costs %d bytes, want at most %d; %d goroutines more", each, limit, now-goroutines)
	}
	for _, d := range drivers {
		_ = d.Tenure().Release(ended())
		<-d.Freed()
	}
	clear(drivers)
	if left, _ := measure(); left > before+(after-before)/10 {
		t.Errorf("%d of %d bytes are still reachable after the end", left-before, after-before)
	}
	runtime.KeepAlive(drivers)
}
