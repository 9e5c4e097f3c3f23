package ownershiptest

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/tenure-go/tenure/ownership"
)

// DESIGN 4: vacancy is an answer, before, between and after owners, and after
// the crash of one.
func testHolderVacancy(e *env) {
	a, b := e.process("alice"), e.process("bob")
	r := e.name()
	h, err := b.Holder(e.ctx(), r)
	if err != nil || !h.Vacant() || h.Owner != (ownership.Owner{}) || h.Token != 0 || h.Resource != r {
		e.Fatalf("Holder of what was never owned: %+v, %v", h, err)
	}
	t := a.take(r)
	a.release(t)
	e.vacantFor(b, t)
	u := a.take(r)
	a.crash()
	e.eventually("the crashed owner is gone", func() bool {
		h, err := b.Holder(e.ctx(), r)
		if err != nil {
			e.Fatalf("Holder: %v", err)
		}
		if !h.Vacant() && (h.Owner != u.Owner() || h.Token != u.Token()) {
			e.Fatalf("Holder: %v, want %v or nobody", h, u.Owner())
		}
		return h.Vacant()
	})
	e.vacantFor(b, u)
}

// watcher collects what one Watch yields.
type watcher struct {
	mu     sync.Mutex
	seen   []ownership.Holder
	errs   []error
	ended  chan struct{}
	cancel context.CancelFunc
}

func (e *env) watch(p *proc, resource string) *watcher {
	ctx, cancel := context.WithCancel(e.ctx())
	w := &watcher{ended: make(chan struct{}), cancel: cancel}
	e.Cleanup(func() {
		cancel()
		<-w.ended
	})
	go func() {
		defer close(w.ended)
		for h, err := range p.Watch(ctx, resource) {
			w.mu.Lock()
			if err != nil {
				w.errs = append(w.errs, err)
			} else {
				w.seen = append(w.seen, h)
			}
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *watcher) last() (h ownership.Holder, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n = len(w.seen); n > 0 {
		h = w.seen[n-1]
	}
	return h, n
}

func (w *watcher) errors() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errs
}

// shows waits until the watcher has told of t as the holder, or of a vacancy.
func (e *env) shows(what string, w *watcher, t *ownership.Tenure) {
	e.Helper()
	e.eventually(what, func() bool {
		h, n := w.last()
		if t == nil {
			return n > 0 && h.Vacant()
		}
		return n > 0 && h.Owner == t.Owner() && h.Token == t.Token()
	})
}

// hashicorp/raft#426 and DESIGN 4: the current state first, every observer on its
// own, the latest at last, never an older one after a newer.
func testWatch(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := a.take(e.name())
	r := t.Resource()
	one, two, far := e.watch(a, r), e.watch(a, r), e.watch(b, r)
	all := map[string]*watcher{"the first": one, "the second": two, "the far one": far}
	for name, w := range all {
		e.shows(name+" tells the current state first", w, t)
	}
	a.release(t)
	for name, w := range all {
		e.shows(name+" tells of the vacancy", w, nil)
	}
	u := b.take(r)
	for name, w := range all {
		e.shows(name+" tells of the new owner", w, u)
	}
	b.crash()
	for name, w := range all {
		if w != far {
			e.shows(name+" tells that the owner is gone", w, nil)
		}
	}
	v := a.acquire(r)
	e.shows("the first tells of the last owner", one, v)
	for name, w := range all {
		w.mu.Lock()
		if w.seen[0].Owner != t.Owner() {
			e.Errorf("%s began with %v", name, w.seen[0])
		}
		for i := 1; i < len(w.seen); i++ {
			if w.seen[i] == w.seen[i-1] {
				e.Errorf("%s told twice of %v", name, w.seen[i])
			}
			if w.seen[i].Fence < w.seen[i-1].Fence || !w.seen[i].Vacant() && w.seen[i].Token < w.seen[i-1].Token {
				e.Errorf("%s told of %v after %v", name, w.seen[i], w.seen[i-1])
			}
		}
		w.mu.Unlock()
	}
	one.cancel()
	<-one.ended
}

// DESIGN 4: a slow reader misses states in between, and gets the latest.
func testWatchSlowReader(e *env) {
	a := e.process("alice")
	r := e.name()
	first := a.take(r)
	var last *ownership.Tenure
	n := 0
	for h, err := range a.Watch(e.ctx(), r) {
		if err != nil {
			e.Fatalf("Watch: %v", err)
		}
		n++
		if n == 1 {
			if h.Token != first.Token() {
				e.Fatalf("the watch began with %v", h)
			}
			a.release(first)
			for range 5 {
				a.release(a.take(r))
			}
			last = a.take(r)
			continue
		}
		if h.Token == last.Token() {
			break
		}
	}
	if n > 2 {
		e.Errorf("%d states for a reader that slept through 12 changes; the second should be the latest", n)
	}
}

// DESIGN 4: an error is yielded and the watch goes on; Close ends it.
func testWatchThroughTrouble(e *env) {
	a, b := e.process("alice"), e.process("bob")
	t := b.take(e.name())
	w := e.watch(a, t.Resource())
	e.shows("the holder is told", w, t)
	a.Cut()
	b.release(t)
	e.eventually("the watch tells of trouble", func() bool { return len(w.errors()) > 0 })
	a.Heal()
	e.shows("the watch goes on", w, nil)
	u := b.take(t.Resource())
	e.shows("the watch goes on", w, u)
	if err := a.Close(e.ctx()); err != nil {
		e.Fatalf("Close: %v", err)
	}
	select {
	case <-w.ended:
	case <-e.ctx().Done():
		e.Fatal("the watch goes on after Close")
	}
	errs := w.errors()
	if len(errs) == 0 || !errors.Is(errs[len(errs)-1], ownership.ErrClosed) {
		e.Errorf("the watch ended with %v, want ErrClosed", errs)
	}
	for _, err := range errs[:len(errs)-1] {
		if errors.Is(err, ownership.ErrClosed) {
			e.Error("the watch went on after ErrClosed")
		}
	}
}

// The number of goroutines depends on the process, not on its tenures.
func testGoroutines(e *env) {
	a := e.process("alice")
	few, many := 5, 60
	if e.h.VirtualTime {
		many = 500
	}
	for range few {
		a.take(e.name())
	}
	settled := func() int {
		n := runtime.NumGoroutine()
		e.eventually("goroutines have settled", func() bool {
			before := n
			n = runtime.NumGoroutine()
			return n == before
		})
		return n
	}
	before := settled()
	for range many {
		a.take(e.name())
	}
	if after := settled(); after > before+few {
		e.Errorf("%d goroutines with %d tenures, %d with %d", before, few, after, few+many)
	}
}
