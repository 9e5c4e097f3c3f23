package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
	"github.com/tenure-go/tenure/ownership/memory"
)

// The timing of every scenario: round numbers, within the rule of Timing.
const (
	ttl     = 10 * time.Second
	renewal = 2 * time.Second
	timeout = time.Second
	usable  = 8 * time.Second // ttl − skew − margin
	skew    = time.Second
	poll    = 100 * time.Millisecond
)

var timing = ownership.Timing{
	TTL: ttl, RenewEvery: renewal, RequestTimeout: timeout, Skew: skew, Margin: time.Second, Grace: ttl, Drain: ttl,
}

// world is one authority under virtual time, the processes that use it, and a
// witness that checks what must always hold.
type world struct {
	*testing.T
	store *memory.Store // a view without faults, for looking and for hand edits
	began time.Time
	procs []*process

	mu     sync.Mutex
	token  map[string]ownership.Token     // highest granted
	live   map[string][]*ownership.Tenure // ever held, and not over
	over   map[*ownership.Tenure]bool
	doubts map[doubt]int // unknown outcomes that are not resolved, by operation
	counts tally
}

// tally shows whether a history had anything in it.
type tally struct {
	Tenures, Suspects, Lost, Unknowns int
}

// scenario runs test in a bubble. When it returns all processes are closed, and
// the bubble checks that no goroutine is left.
func scenario(t *testing.T, test func(w *world)) { scenarioOn(t, memory.StoreOptions{}, test) }

func scenarioOn(t *testing.T, opts memory.StoreOptions, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			T: t, store: memory.NewStore(opts), began: time.Now(),
			token: map[string]ownership.Token{}, live: map[string][]*ownership.Tenure{},
			over: map[*ownership.Tenure]bool{}, doubts: map[doubt]int{},
		}
		t.Cleanup(func() {
			for _, p := range w.procs {
				p.view.Heal()
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				_ = p.Close(ctx)
				cancel()
			}
		})
		test(w)
		w.noTwoHeld()
	})
}

// process is one Ownership on a view of its own.
type process struct {
	*lease.Ownership
	w    *world
	view *memory.Store
}

// process starts one; a change of its configuration is optional.
func (w *world) process(name string, change ...func(*lease.Config)) *process {
	w.Helper()
	p := &process{w: w, view: w.store.Client(name)}
	cfg := lease.Config{
		Store: p.view, Owner: name, Timing: timing, PollEvery: poll, AuditEvery: time.Minute,
		Hooks: ownership.Hooks{witness{w, name}},
	}
	for _, c := range change {
		c(&cfg)
	}
	own, err := lease.New(cfg)
	if err != nil {
		w.Fatal(err)
	}
	p.Ownership = own
	w.procs = append(w.procs, p)
	return p
}

// OnTransition checks DESIGN 8.1 (tokens rise) and 2.2 (the end is the end).
func (w *world) OnTransition(e ownership.Transition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, r := e.Tenure, e.Tenure.Resource()
	if w.over[t] {
		w.Errorf("%s token %d went from %s to %s after its end", r, t.Token(), e.From, e.To)
	}
	switch {
	case e.From == ownership.Acquiring && e.To == ownership.Held:
		w.counts.Tenures++
		if t.Token() <= w.token[r] {
			w.Errorf("%s: token %d was granted after %d (DESIGN 8.1)", r, t.Token(), w.token[r])
		}
		w.token[r] = t.Token()
		w.live[r] = append(w.live[r], t)
	case e.To == ownership.Suspect:
		w.counts.Suspects++
	case e.To == ownership.Lost:
		w.counts.Lost++
	}
	if e.To.Terminal() {
		w.over[t] = true
		w.live[r] = slices.DeleteFunc(w.live[r], func(o *ownership.Tenure) bool { return o == t })
	}
}

// doubt is an operation of a process whose outcome is unknown.
type doubt struct{ process, op, on string }

// witness tells the world what one process meets.
type witness struct {
	*world
	name string
}

func (w witness) OnUnknown(e ownership.UnknownEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := doubt{w.name, e.Op, e.Resource}
	if e.Resolved == ownership.Unknown {
		w.counts.Unknowns++
		w.doubts[key]++
	} else {
		delete(w.doubts, key)
	}
}

// noTwoHeld looks at all tenures at one instant. On one clock the lease alone
// gives exclusion.
func (w *world) noTwoHeld() {
	w.Helper()
	w.mu.Lock()
	live := map[string][]*ownership.Tenure{}
	for r, ts := range w.live {
		live[r] = append(live[r], ts...)
	}
	w.mu.Unlock()
	for r, ts := range live {
		var held []string
		for _, t := range ts {
			if t.State() == ownership.Held {
				held = append(held, fmt.Sprintf("%v token %d", t.Owner(), t.Token()))
			}
		}
		if len(held) > 1 {
			w.Errorf("%s is held twice: %q", r, held)
		}
	}
}

// pass lets time go by in small steps and looks for two holders at each.
func (w *world) pass(d time.Duration) {
	w.Helper()
	const step = 100 * time.Millisecond
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(step, time.Until(end)))
		w.noTwoHeld()
	}
	synctest.Wait()
}

// within returns a context that ends after d.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) row(resource string) lease.Grant {
	w.Helper()
	b, err := w.store.Grants(context.Background(), w.store.Bucket(resource), []string{resource})
	if err != nil {
		w.Fatal(err)
	}
	g, _ := b.Row(resource)
	return g
}

func (w *world) fence(resource string) ownership.Token {
	w.Helper()
	b, err := w.store.Grants(context.Background(), w.store.Bucket(resource), []string{resource})
	if err != nil {
		w.Fatal(err)
	}
	return b.Fence
}

func (w *world) session(id lease.ID) lease.Session {
	w.Helper()
	s, err := w.store.Session(context.Background(), id)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// noGhost fails if a living session has a grant of the resource without a tenure
// that is not over: nobody would ever remove it (DESIGN 5, unknown outcome).
func (w *world) noGhost(resources ...string) {
	w.Helper()
	for _, r := range resources {
		g := w.row(r)
		if g.Free() || !w.session(g.Session).Alive() {
			continue
		}
		w.mu.Lock()
		live := append([]*ownership.Tenure(nil), w.live[r]...)
		w.mu.Unlock()
		held := false
		for _, t := range live {
			held = held || t.Token() == g.Token && !t.State().Terminal()
		}
		if !held {
			w.Errorf("%s is granted to %s under token %d, its session lives, and nobody holds it", r, g.Owner, g.Token)
		}
	}
}

// settled fails if an outcome of the process is still unknown (DESIGN 8.4). An
// insert of a session may be, for it was given up for another id, and the moving of
// a fence, for where the fence stands is all that matters.
func (w *world) settled(p *process, except ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for of, n := range w.doubts {
		if of.process == p.Owner().Name && of.op != "open" && of.op != "move fence" && !slices.Contains(except, of.op) {
			w.Errorf("%s of %q by %s: %d unknown outcomes were never resolved", of.op, of.on, of.process, n)
		}
	}
}

// acquire gets the resource, within a minute.
func (p *process) acquire(resource string) *ownership.Tenure {
	p.w.Helper()
	t, err := p.Acquire(p.w.within(time.Minute), resource)
	if err != nil {
		p.w.Fatalf("%s acquires %s: %v", p.Owner().Name, resource, err)
	}
	return t
}

// try makes one attempt, which must succeed.
func (p *process) try(resource string) *ownership.Tenure {
	p.w.Helper()
	t, err := p.TryAcquire(p.w.within(time.Minute), resource)
	if err != nil {
		p.w.Fatalf("%s tries %s: %v", p.Owner().Name, resource, err)
	}
	return t
}

// refused makes one attempt, which must be told who holds the resource.
func (p *process) refused(resource string) ownership.Holder {
	p.w.Helper()
	t, err := p.TryAcquire(p.w.within(time.Minute), resource)
	held := (*ownership.HeldError)(nil)
	if t != nil || !errors.As(err, &held) || !errors.Is(err, ownership.ErrHeld) {
		p.w.Fatalf("%s tries %s: %v, %v; want a HeldError", p.Owner().Name, resource, t, err)
	}
	return held.Holder
}

// release gives the tenure back, within a minute.
func (w *world) release(t *ownership.Tenure) {
	w.Helper()
	if err := t.Release(w.within(time.Minute)); err != nil {
		w.Fatalf("releasing %s: %v", t.Resource(), err)
	}
}

// crash cuts the process off for good: it says nothing more, to anybody.
func (p *process) crash() { p.view.Cut() }

// count returns how many requests of these kinds the process has begun.
func (p *process) count(ops ...memory.Op) int {
	n := 0
	for _, op := range ops {
		n += p.view.Counts()[op]
	}
	return n
}

// changes are the requests that cost a compare-and-set.
var changes = []memory.Op{memory.OpOpen, memory.OpRenew, memory.OpKill, memory.OpRevoke, memory.OpEnd, memory.OpClaim, memory.OpRelease}

func (w *world) wantState(t *ownership.Tenure, want ownership.State) {
	w.Helper()
	if got := t.State(); got != want {
		w.Fatalf("%s (token %d) is %s, want %s: %v", t.Resource(), t.Token(), got, want, t.Err())
	}
}

// wantLost checks the state and why.
func (w *world) wantLost(t *ownership.Tenure, why error) {
	w.Helper()
	if t.State() != ownership.Lost || !errors.Is(t.Err(), why) {
		w.Fatalf("%s (token %d) is %s: %v; want lost: %v", t.Resource(), t.Token(), t.State(), t.Err(), why)
	}
}

// now counts from the begin of the scenario.
func (w *world) now() time.Duration { return time.Since(w.began) }

// altered is a store some of whose answers are not what memory's are.
type altered struct {
	lease.Store
	peek    func(ctx context.Context, bucket string, resources []string) (lease.Bucket, error)
	session func(ctx context.Context, id lease.ID) (lease.Session, error)
	kill    func(ctx context.Context, id lease.ID, expect *int64, wait time.Duration) lease.Result[lease.Session]
	renew   func(ctx context.Context, s lease.Session, acknowledge lease.ID) lease.Result[lease.Session]
	claim   func(ctx context.Context, c lease.Claim) lease.Result[lease.Bucket]
}

func (a *altered) Peek(ctx context.Context, bucket string, resources []string) (lease.Bucket, error) {
	if a.peek != nil {
		return a.peek(ctx, bucket, resources)
	}
	return a.Store.Peek(ctx, bucket, resources)
}

func (a *altered) Session(ctx context.Context, id lease.ID) (lease.Session, error) {
	if a.session != nil {
		return a.session(ctx, id)
	}
	return a.Store.Session(ctx, id)
}

func (a *altered) Kill(ctx context.Context, id lease.ID, expect *int64, wait time.Duration) lease.Result[lease.Session] {
	if a.kill != nil {
		return a.kill(ctx, id, expect, wait)
	}
	return a.Store.Kill(ctx, id, expect, wait)
}

func (a *altered) Renew(ctx context.Context, s lease.Session, acknowledge lease.ID) lease.Result[lease.Session] {
	if a.renew != nil {
		return a.renew(ctx, s, acknowledge)
	}
	return a.Store.Renew(ctx, s, acknowledge)
}

func (a *altered) Claim(ctx context.Context, c lease.Claim) lease.Result[lease.Bucket] {
	if a.claim != nil {
		return a.claim(ctx, c)
	}
	return a.Store.Claim(ctx, c)
}

// alter starts a process whose store is altered by change.
func (w *world) alter(name string, change func(a *altered)) *process {
	return w.process(name, func(c *lease.Config) {
		a := &altered{Store: c.Store}
		change(a)
		c.Store = a
	})
}
