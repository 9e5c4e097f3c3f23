package ownershiptest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// env is what one test works with.
type env struct {
	*testing.T
	h      Harness
	test   testCase
	timing ownership.Timing
	prefix string

	authority Authority
	history   history
	processes []*proc
	names     int
}

func newEnv(t *testing.T, h Harness, c testCase) *env {
	e := &env{T: t, h: h, test: c, timing: h.Timing, prefix: ownership.NewOwner("r").Nonce}
	e.history.held = make(map[string]*ownership.Tenure)
	e.history.highest = make(map[string]ownership.Token)
	return e
}

func (e *env) run() {
	e.authority = e.h.New(e.T)
	e.Cleanup(func() {
		for _, p := range e.processes {
			p.shutdown()
		}
		if e.h.VirtualTime {
			// Requests that a fault has delayed may still be on their way, in
			// goroutines of the network's, and no time passes once the test is over.
			time.Sleep(e.bound())
		}
		for _, fault := range e.history.take() {
			e.Error(fault)
		}
		if e.Failed() {
			for _, p := range e.processes {
				p.mu.Lock()
				for _, line := range p.log {
					e.Log(line)
				}
				p.mu.Unlock()
			}
		}
	})
	e.test.test(e)
}

// name returns a resource that no other test uses.
func (e *env) name() string {
	e.names++
	return fmt.Sprintf("%s/%s-%d", e.test.name, e.prefix, e.names)
}

// bound is longer than anything that a sound adapter needs.
func (e *env) bound() time.Duration { return 5*(e.timing.TTL+e.timing.Grace) + 30*time.Second }

func (e *env) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Context()), e.bound())
	e.Cleanup(cancel)
	return ctx
}

// eventually polls until cond holds.
func (e *env) eventually(what string, cond func() bool) {
	e.Helper()
	pause := min(e.timing.TTL/100, 20*time.Millisecond)
	for deadline := time.Now().Add(e.bound()); ; time.Sleep(pause) {
		if cond() {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("waited in vain until %s", what)
		}
	}
}

// pass lets d pass, watching that cond holds all the time.
func (e *env) pass(d time.Duration, what string, cond func() error) {
	e.Helper()
	pause := min(e.timing.TTL/50, 50*time.Millisecond)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(pause) {
		if err := cond(); err != nil {
			e.Fatalf("%s: %v", what, err)
		}
	}
}

// proc is one process of a test.
type proc struct {
	*Process
	e     *env
	owner string

	mu      sync.Mutex
	tenures []*ownership.Tenure
	seen    []ownership.Transition
	log     []string // what to show when the test fails
}

// process starts a process under the test's timing; each of change may alter it.
func (e *env) process(owner string, change ...func(*ownership.Timing)) *proc {
	e.Helper()
	p := &proc{e: e, owner: owner}
	timing := e.timing
	for _, c := range change {
		c(&timing)
	}
	var err error
	if p.Process, err = e.authority(Spec{Owner: owner, Timing: timing, Hooks: ownership.Hooks{p}}); err != nil {
		e.Fatalf("starting process %s: %v", owner, err)
	}
	e.processes = append(e.processes, p)
	return p
}

// OnTransition records what happens to every tenure of the process.
func (p *proc) OnTransition(tr ownership.Transition) {
	p.mu.Lock()
	p.seen = append(p.seen, tr)
	p.mu.Unlock()
	p.logf("%s (token %d): %s → %s, %v remaining: %v", tr.Tenure.Resource(), tr.Tenure.Token(), tr.From, tr.To, tr.Remaining, tr.Cause)
	p.e.history.note(tr)
}

// OnRenewal, OnUnknown and OnSession keep what explains a failure.
func (p *proc) OnRenewal(r ownership.RenewalEvent) {
	if r.Outcome != ownership.Applied {
		p.logf("renewal %s after %v, %v remaining: %v", r.Outcome, r.Latency, r.Remaining, r.Err)
	}
}

func (p *proc) OnUnknown(u ownership.UnknownEvent) {
	p.logf("%s of %s unknown, resolved %s: %v", u.Op, u.Resource, u.Resolved, u.Err)
}

func (p *proc) OnSession(s ownership.SessionEvent) {
	p.logf("session %s open %v: %v", s.Session, s.Open, s.Cause)
}

// keptLines bounds what is kept for each process: the end of a story explains it.
const keptLines = 100

func (p *proc) logf(format string, args ...any) {
	line := time.Now().Format("15:04:05.000 ") + p.owner + ": " + fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.log) == 2*keptLines {
		p.log = append(p.log[:0], p.log[keptLines:]...)
	}
	p.log = append(p.log, line)
}

// transitions returns the states that a tenure has entered so far.
func (p *proc) transitions(t *ownership.Tenure) (to []ownership.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tr := range p.seen {
		if tr.Tenure == t {
			to = append(to, tr.To)
		}
	}
	return to
}

func (p *proc) entered(t *ownership.Tenure, s ownership.State) (n int) {
	for _, to := range p.transitions(t) {
		if to == s {
			n++
		}
	}
	return n
}

// own remembers a tenure, so that the end of the test can say that nobody works
// under it any more.
func (p *proc) own(t *ownership.Tenure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenures = append(p.tenures, t)
}

// acquire waits for the resource.
func (p *proc) acquire(resource string) *ownership.Tenure {
	p.e.Helper()
	t, err := p.Acquire(p.e.ctx(), resource)
	if err != nil {
		p.e.Fatalf("%s: Acquire: %v", p.owner, err)
	}
	p.own(t)
	return t
}

// take wants the resource at once.
func (p *proc) take(resource string) *ownership.Tenure {
	p.e.Helper()
	t, err := p.TryAcquire(p.e.ctx(), resource)
	if err != nil {
		p.e.Fatalf("%s: TryAcquire: %v", p.owner, err)
	}
	p.own(t)
	return t
}

// refused wants to hear that t's owner holds the resource.
func (p *proc) refused(t *ownership.Tenure) {
	p.e.Helper()
	got, err := p.TryAcquire(p.e.ctx(), t.Resource())
	if err == nil {
		p.own(got)
	}
	var held *ownership.HeldError
	if !errors.As(err, &held) || !errors.Is(err, ownership.ErrHeld) {
		p.e.Fatalf("%s: TryAcquire of what %s holds: %v, want a *HeldError", p.owner, t.Owner(), err)
	}
	if h := held.Holder; h.Owner != t.Owner() || h.Token != t.Token() || h.Resource != t.Resource() {
		p.e.Fatalf("%s: the *HeldError names %v, want %v under token %d", p.owner, h, t.Owner(), t.Token())
	}
}

// release gives t back and wants to hear that it is gone.
func (p *proc) release(t *ownership.Tenure) {
	p.e.Helper()
	if err := t.Release(p.e.ctx()); err != nil {
		p.e.Fatalf("%s: Release: %v", p.owner, err)
	}
}

// crash leaves the process as it is: it never reaches the authority again.
func (p *proc) crash() { p.Cut() }

// canceled says "my work has ended" without waiting for what follows.
var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// shutdown ends what the test left, whatever state it is in.
func (p *proc) shutdown() {
	if p.Heal != nil {
		p.Heal()
	}
	if p.Observe != nil {
		p.Observe(nil)
	}
	p.mu.Lock()
	tenures := p.tenures
	p.mu.Unlock()
	for _, t := range tenures {
		_ = t.Release(canceled)
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.e.bound())
	defer cancel()
	_ = p.Close(ctx)
	for _, t := range tenures {
		if s := t.State(); !s.Terminal() {
			p.e.Errorf("%s: after Close %s (token %d) is %s", p.owner, t.Resource(), t.Token(), s)
		}
	}
}

// wantState compares a tenure's state.
func (e *env) wantState(t *ownership.Tenure, want ownership.State) {
	e.Helper()
	if got := t.State(); got != want {
		e.Fatalf("%s (token %d) is %s (%v), want %s", t.Resource(), t.Token(), got, t.Err(), want)
	}
}

// wantHeld checks that every view of a tenure says so.
func (e *env) wantHeld(t *ownership.Tenure) {
	e.Helper()
	if err := t.Ensure(0); err != nil {
		e.Fatalf("Ensure: %v", err)
	}
	if err := t.Context().Err(); err != nil {
		e.Fatalf("Context().Err(): %v (%v) though Ensure said held", err, context.Cause(t.Context()))
	}
}

// wantEnded checks that every view of a tenure says that it is over, and why.
func (e *env) wantEnded(t *ownership.Tenure, ctx context.Context, want ...error) {
	e.Helper()
	select {
	case <-t.Done():
	case <-e.ctx().Done(): // one that is closed a moment after the context is no fault
		e.Fatalf("%s (token %d) is %s, and Done is open", t.Resource(), t.Token(), t.State())
	}
	if ctx.Err() == nil || t.Context().Err() == nil {
		e.Fatalf("%s (token %d) is %s, and its work goes on", t.Resource(), t.Token(), t.State())
	}
	for _, w := range append(want, ownership.ErrNotHeld) {
		for what, err := range map[string]error{"Err": t.Err(), "Ensure": t.Ensure(0)} {
			if !errors.Is(err, w) {
				e.Fatalf("%s of %s (token %d): %v, want %v", what, t.Resource(), t.Token(), err, w)
			}
		}
	}
}

// cause waits for ctx to end and returns why.
func (e *env) cause(ctx context.Context) error {
	e.Helper()
	select {
	case <-ctx.Done():
	case <-e.ctx().Done():
		e.Fatal("the context of the work did not end")
	}
	return context.Cause(ctx)
}

// vacantFor wants the resource to be vacant for p, with a fence of at least t's
// token.
func (e *env) vacantFor(p *proc, t *ownership.Tenure) {
	e.Helper()
	h, err := p.Holder(e.ctx(), t.Resource())
	if err != nil || !h.Vacant() || h.Fence < t.Token() {
		e.Fatalf("Holder: %v (fence %d), %v; want vacant with a fence of at least %d", h, h.Fence, err, t.Token())
	}
}

// history watches all tenures of a test.
type history struct {
	mu      sync.Mutex
	held    map[string]*ownership.Tenure
	highest map[string]ownership.Token
	faults  []string
	// early: the test makes the authority give a resource away under a living
	// owner, so two may believe at once.
	early bool
}

var legal = map[ownership.State][]ownership.State{
	ownership.Acquiring: {ownership.Held, ownership.Lost},
	ownership.Held:      {ownership.Suspect, ownership.Lost, ownership.Released},
	ownership.Suspect:   {ownership.Held, ownership.Lost},
}

func (h *history) note(tr ownership.Transition) {
	t := tr.Tenure
	resource, token := t.Resource(), t.Token()
	h.mu.Lock()
	var fault string
	ok := false
	for _, to := range legal[tr.From] {
		ok = ok || to == tr.To
	}
	if !ok {
		fault = fmt.Sprintf("%s (token %d) went from %s to %s", resource, token, tr.From, tr.To)
	}
	var other *ownership.Tenure
	switch {
	case tr.To != ownership.Held:
		if h.held[resource] == t {
			delete(h.held, resource)
		}
	default:
		if tr.Remaining <= 0 {
			fault = fmt.Sprintf("%s (token %d) is held on a proof that ended %v ago (DESIGN 2.3)", resource, token, -tr.Remaining)
		}
		if token <= h.highest[resource] && tr.From == ownership.Acquiring || token < h.highest[resource] && !h.early {
			fault = fmt.Sprintf("%s is held under token %d after token %d was granted (DESIGN 8.1)", resource, token, h.highest[resource])
		}
		h.highest[resource] = max(h.highest[resource], token)
		if o := h.held[resource]; o != t && !h.early {
			other = o
		}
		h.held[resource] = t
	}
	h.mu.Unlock()
	// Asked outside the lock: its answer may tell hooks first. The hook of its end
	// may be on its way still, so only its state counts.
	if other != nil && other.State() == ownership.Held {
		fault = fmt.Sprintf("%s is held under tokens %d and %d at once", resource, other.Token(), token)
	}
	if fault != "" {
		h.mu.Lock()
		h.faults = append(h.faults, fault)
		h.mu.Unlock()
	}
}

// giveAwayEarly permits what [history].early says.
func (h *history) giveAwayEarly() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.early = true
}

func (h *history) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.faults
}

// checkLeaks waits until no goroutine runs in any of the packages.
func checkLeaks(t *testing.T, packages []string) {
	var left []string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if left = goroutinesOf(packages); len(left) == 0 {
			return
		}
	}
	t.Errorf("%d goroutines outlive Close:\n\n%s", len(left), strings.Join(left, "\n\n"))
}

func goroutinesOf(packages []string) (stacks []string) {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := strings.Split(string(buf), "\n\n")
	for _, stack := range all[1:] { // the first one is ours
		if strings.Contains(stack, "testing.(*T).Run") || strings.Contains(stack, "testing.tRunner") {
			continue
		}
		for _, p := range packages {
			if strings.Contains(stack, "\n"+p) || strings.Contains(stack, "created by "+p) {
				stacks = append(stacks, stack)
				break
			}
		}
	}
	return stacks
}
