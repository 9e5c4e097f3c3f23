package lease_test

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// DESIGN 5, waiting: plain reads as hints; the grant itself only ever by a claim. A
// release is noticed within a poll interval and a half.
func TestWaitingCostsPlainReadsOnly(t *testing.T) {
	scenario(t, func(w *world) {
		p, q := w.process("p"), w.process("q")
		tenure := q.acquire("a")
		p.acquire("b")
		before := p.count(memory.OpClaim, memory.OpKill, memory.OpSession, memory.OpGrants)
		got := make(chan *ownership.Tenure)
		go func() {
			tenure, _ := p.Acquire(context.Background(), "a")
			got <- tenure
		}()
		w.pass(time.Minute)
		if n := p.count(memory.OpClaim, memory.OpKill, memory.OpSession, memory.OpGrants) - before; n > 2 {
			t.Errorf("%d linearizable requests in a minute of waiting, want the two of the verdict", n)
		}
		if n := p.count(memory.OpPeek); n < 500 || n > 1300 {
			t.Errorf("%d plain reads in a minute, every %v", n, poll)
		}
		released := w.now()
		w.release(tenure)
		<-got
		if waited := w.now() - released; waited > poll+poll/2 {
			t.Errorf("the resource was got %v after its release", waited)
		}
	})
}

// consul#9469: N waiters do not come at once, and do not come back at once.
func TestWaitersSpreadOut(t *testing.T) {
	scenario(t, func(w *world) {
		q := w.process("q")
		tenure := q.acquire("a")
		var mu sync.Mutex
		var looks []time.Duration
		claims := 0
		for range 20 {
			p := w.process("p")
			p.view.Observe(func(r memory.Request) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case r.Answered:
				case r.Op == memory.OpPeek:
					looks = append(looks, w.now())
				case r.Op == memory.OpClaim:
					claims++
				}
			})
			go func() {
				if tenure, err := p.Acquire(context.Background(), "a"); err == nil {
					_ = tenure.Release(context.Background())
				}
			}()
		}
		w.pass(12 * poll)
		mu.Lock()
		late := slices.DeleteFunc(slices.Clone(looks), func(at time.Duration) bool { return at < 2*poll })
		mu.Unlock()
		slices.Sort(late)
		if n := len(slices.Compact(slices.Clone(late))); n < len(late)*9/10 {
			t.Errorf("of %d looks only %d were at an instant of their own", len(late), n)
		}
		w.release(tenure)
		w.pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if claims < 20 || claims > 3*20 {
			t.Errorf("%d claims for 20 handovers", claims)
		}
	})
}

// A crash is noticed soon after the session is gone: its row changes by nobody.
func TestWaiterSeesTheDeath(t *testing.T) {
	scenario(t, func(w *world) {
		p, q := w.process("p"), w.process("q")
		q.acquire("a")
		q.crash()
		tenure := p.acquire("a")
		if took := w.now(); took > ttl+ttl/8+ttl/16+2*poll {
			t.Errorf("taken over after %v, the session had %v", took, ttl)
		}
		w.wantState(tenure, ownership.Held)
	})
}

// DESIGN 5, Holder: the row, then its session; dead → the row again. Vacancy is an
// answer.
func TestHolder(t *testing.T) {
	scenario(t, func(w *world) {
		p, q := w.process("p"), w.process("q")
		ask := func() ownership.Holder {
			h, err := q.Holder(w.within(time.Minute), "a")
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		if h := ask(); !h.Vacant() || h.Fence != 0 || h.Resource != "a" {
			t.Errorf("never claimed: %v", h)
		}
		tenure := p.acquire("a")
		if h := ask(); h.Owner != p.Owner() || h.Token != tenure.Token() || h.Fence != tenure.Token() {
			t.Errorf("held: %v", h)
		}
		w.release(tenure)
		if h := ask(); !h.Vacant() || h.Fence != tenure.Token() {
			t.Errorf("released: %v", h)
		}
		old := p.acquire("a")
		p.crash()
		w.pass(ttl)
		if h := ask(); !h.Vacant() || h.Fence != old.Token() {
			t.Errorf("of a session that is gone: %v", h)
		}
		// It changes hands just when its old session was found dead.
		next := w.process("next")
		q.view.Observe(func(r memory.Request) {
			if r.Op == memory.OpSession && r.Answered {
				q.view.Observe(nil)
				next.acquire("a")
			}
		})
		if h := ask(); h.Owner != next.Owner() {
			t.Errorf("taken over in between: %v", h)
		}
		if n := q.count(changes...); n > 0 {
			t.Errorf("asking sent %d changes", n)
		}
	})
}

// watch collects what a watch yields.
type watch struct {
	mu      sync.Mutex
	holders []ownership.Holder
	errs    []error
}

func (w *watch) follow(seq iter.Seq2[ownership.Holder, error]) {
	for h, err := range seq {
		w.mu.Lock()
		if err != nil {
			w.errs = append(w.errs, err)
		} else {
			w.holders = append(w.holders, h)
		}
		w.mu.Unlock()
	}
}

func (w *watch) seen() (tokens []ownership.Token, errs []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.holders {
		tokens = append(tokens, h.Token)
	}
	return tokens, slices.Clone(w.errs)
}

// DESIGN 4, Watch: the state now, then every change, vacancy and crash included;
// trouble is yielded and the watch goes on; Close ends it.
func TestWatch(t *testing.T) {
	scenario(t, func(w *world) {
		p, q := w.process("p"), w.process("q")
		var got watch
		done := make(chan struct{})
		go func() {
			defer close(done)
			got.follow(q.Watch(context.Background(), "a"))
		}()
		want := func(what string, tokens ...ownership.Token) {
			t.Helper()
			if seen, errs := got.seen(); !slices.Equal(seen, tokens) || len(errs) > 0 {
				t.Errorf("%s: %v, %v; want %v", what, seen, errs, tokens)
			}
		}
		w.pass(2 * poll)
		want("vacant", 0)
		tenure := p.acquire("a")
		w.pass(2 * poll)
		want("held", 0, 1)
		w.release(tenure)
		w.pass(2 * poll)
		want("released", 0, 1, 0)
		p.acquire("a")
		w.pass(10 * time.Second)
		want("held on", 0, 1, 0, 2)
		p.crash()
		w.pass(ttl + ttl/2)
		want("crashed", 0, 1, 0, 2, 0)
		q.view.Inject(memory.Fault{Mode: memory.Lose})
		w.pass(5 * poll)
		if _, errs := got.seen(); len(errs) != 1 || !errors.Is(errs[0], memory.ErrInjected) {
			t.Errorf("trouble: %v", errs)
		}
		w.process("z").acquire("a")
		w.pass(2 * poll)
		if seen, _ := got.seen(); !slices.Equal(seen, []ownership.Token{0, 1, 0, 2, 0, 3}) {
			t.Errorf("after trouble: %v", seen)
		}
		if err := q.Close(context.Background()); err != nil {
			t.Error(err)
		}
		<-done
		if _, errs := got.seen(); !errors.Is(errs[len(errs)-1], ownership.ErrClosed) {
			t.Errorf("the watch ended with %v", errs)
		}
	})
}

// A watcher that is slow gets the latest and never an older one after a newer, even
// though it looks by plain reads that may be old.
func TestWatchNeverGoesBack(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		var past []lease.Bucket
		q := w.alter("q", func(a *altered) {
			next := a.Store
			a.peek = func(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
				now, err := next.Grants(ctx, bucket, resources)
				past = append(past, now)
				return past[rand.IntN(len(past))], err // any state there ever was
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			for range 30 {
				tenure := p.acquire("a")
				w.pass(poll)
				w.release(tenure)
				w.pass(poll)
			}
			cancel()
		}()
		var last ownership.Token
		n := 0
		for h, err := range q.Watch(ctx, "a") {
			if err != nil {
				t.Fatal(err)
			}
			if h.Fence < last {
				t.Errorf("fence %d after %d", h.Fence, last)
			}
			last = h.Fence
			n++
			time.Sleep(3 * poll) // slow
		}
		if n < 5 {
			t.Errorf("only %d states were yielded", n)
		}
	})
}

// An invalid name ends a watch, as does a context, without an error of its own.
func TestWatchEnds(t *testing.T) {
	scenario(t, func(w *world) {
		p := w.process("p")
		var bad watch
		bad.follow(p.Watch(context.Background(), ""))
		if _, errs := bad.seen(); len(errs) != 1 || !errors.Is(errs[0], ownership.ErrInvalid) {
			t.Errorf("a bad name: %v", errs)
		}
		var good watch
		good.follow(p.Watch(w.within(time.Second), "a"))
		if tokens, errs := good.seen(); len(errs) > 0 || len(tokens) != 1 {
			t.Errorf("%v, %v", tokens, errs)
		}
	})
}
