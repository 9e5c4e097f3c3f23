package ownership_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/clock"
	"github.com/tenure-go/tenure/ownership"
)

// The usual lease of these tests: from a proof on, safe for 10 s, lost after 25 s.
const (
	safeFor = 10 * time.Second
	endsIn  = 25 * time.Second
)

var errNetwork = errors.New("no route to the authority")

// rig is one tenure, its driver, a clock that can be suspended, and a record of
// what happened.
type rig struct {
	*ownership.Driver
	tenure *ownership.Tenure
	clock  clock.Manual
	log    journal
	done   func(error) // reports the outcome of Free, once Free was called
	freed  int         // calls of Free
}

// newRig returns a tenure in state Acquiring. change may alter its configuration.
func newRig(change ...func(*ownership.DriverConfig)) *rig {
	r := &rig{}
	cfg := ownership.DriverConfig{
		Resource: "shard-7",
		Owner:    ownership.Owner{Name: "worker", Nonce: "01"},
		Token:    7,
		Clock:    r.clock.Clock(),
		Hooks:    ownership.Hooks{&r.log},
		Free: func(done func(error)) {
			r.freed++
			r.log.add("free")
			r.done = done
			done(nil)
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	r.Driver = ownership.NewDriver(cfg)
	r.tenure = r.Driver.Tenure()
	return r
}

// holdsFree makes Free leave its outcome to a call of r.done.
func holdsFree(r **rig) func(*ownership.DriverConfig) {
	return func(cfg *ownership.DriverConfig) {
		cfg.Free = func(done func(error)) {
			(*r).freed++
			(*r).done = done
		}
	}
}

func held(change ...func(*ownership.DriverConfig)) *rig {
	r := newRig(change...)
	r.prove()
	return r
}

// prove reports a proof of the usual length, sent now.
func (r *rig) prove() ownership.State {
	now := r.Now()
	return r.Confirm(now.Add(safeFor), now.Add(endsIn))
}

// journal records, in order, what the hooks and the test tell it.
type journal struct {
	mu    sync.Mutex
	lines []string
	all   []ownership.Transition
}

func (j *journal) OnTransition(e ownership.Transition) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, e)
	j.lines = append(j.lines, e.To.String())
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, want) {
		t.Fatalf("what happened: %q\nwant:          %q", j.lines, want)
	}
}

func (j *journal) transitions() []ownership.Transition {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.all)
}

func wantState(t *testing.T, tenure *ownership.Tenure, want ownership.State) {
	t.Helper()
	if got := tenure.State(); got != want {
		t.Fatalf("state is %v, want %v", got, want)
	}
}

// wantErr checks that err matches all of want and none of the other sentinels of
// the package.
func wantErr(t *testing.T, err error, want ...error) {
	t.Helper()
	for _, s := range sentinels {
		if got := errors.Is(err, s); got != slices.Contains(want, s) {
			t.Fatalf("errors.Is(%v, %v) = %v", err, s, got)
		}
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Fatalf("%v does not match %v", err, w)
		}
	}
}

var sentinels = []error{
	ownership.ErrNotHeld, ownership.ErrSuspect, ownership.ErrLost, ownership.ErrReleased,
	ownership.ErrExpired, ownership.ErrRefused, ownership.ErrRevoked, ownership.ErrStalled,
	ownership.ErrHeld, ownership.ErrClosed, ownership.ErrDraining, ownership.ErrUnknown, ownership.ErrInvalid,
}

// authority is an Ownership in memory whose tenures a test drives by hand: it
// proves nothing by itself after the grant.
type authority struct {
	hooks ownership.Hooks
	stall time.Duration

	mu      sync.Mutex
	token   ownership.Token
	holder  map[string]*ownership.Driver
	changed chan struct{}
	closed  bool
	fail    []error // answers of the next calls of Acquire
	calls   int     // of Acquire
}

var _ ownership.Ownership = (*authority)(nil)

func newAuthority(hooks ...ownership.Hook) *authority {
	return &authority{hooks: hooks, holder: map[string]*ownership.Driver{}, changed: make(chan struct{})}
}

// driver returns the driver of the present holder.
func (a *authority) driver(resource string) *ownership.Driver {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holder[resource]
}

func (a *authority) signal() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *authority) TryAcquire(_ context.Context, resource string) (*ownership.Tenure, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.try(resource)
}

func (a *authority) try(resource string) (*ownership.Tenure, error) {
	if a.closed {
		return nil, ownership.ErrClosed
	}
	if d := a.holder[resource]; d != nil {
		t := d.Tenure()
		return nil, &ownership.HeldError{Holder: ownership.Holder{
			Resource: resource, Owner: t.Owner(), Token: t.Token(), Fence: t.Token()}}
	}
	a.token++
	var d *ownership.Driver
	d = ownership.NewDriver(ownership.DriverConfig{
		Resource: resource, Owner: ownership.Owner{Name: "worker", Nonce: "01"}, Token: a.token,
		Hooks: a.hooks, Stall: a.stall,
		Free: func(done func(error)) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.holder[resource] == d {
				delete(a.holder, resource)
				a.signal()
			}
			done(nil)
		},
	})
	now := d.Now()
	d.Confirm(now.Add(safeFor), now.Add(endsIn))
	a.holder[resource] = d
	a.signal()
	return d.Tenure(), nil
}

func (a *authority) Acquire(ctx context.Context, resource string) (*ownership.Tenure, error) {
	a.mu.Lock()
	a.calls++
	if len(a.fail) > 0 {
		err := a.fail[0]
		a.fail = a.fail[1:]
		a.mu.Unlock()
		return nil, err
	}
	a.mu.Unlock()
	for {
		a.mu.Lock()
		t, err := a.try(resource)
		changed := a.changed
		a.mu.Unlock()
		if !errors.Is(err, ownership.ErrHeld) {
			return t, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (a *authority) Holder(_ context.Context, resource string) (ownership.Holder, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := ownership.Holder{Resource: resource, Fence: a.token}
	if d := a.holder[resource]; d != nil {
		h.Owner, h.Token = d.Tenure().Owner(), d.Tenure().Token()
	}
	return h, nil
}

func (a *authority) Watch(ctx context.Context, resource string) iter.Seq2[ownership.Holder, error] {
	return func(yield func(ownership.Holder, error) bool) {
		for ctx.Err() == nil {
			a.mu.Lock()
			changed := a.changed
			a.mu.Unlock()
			if !yield(a.Holder(ctx, resource)) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// Close ends every tenure and waits for its work.
func (a *authority) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	drivers := make([]*ownership.Driver, 0, len(a.holder))
	for _, d := range a.holder {
		drivers = append(drivers, d)
	}
	a.signal()
	a.mu.Unlock()
	for _, d := range drivers {
		d.End(ownership.ErrClosed)
	}
	for _, d := range drivers {
		select {
		case <-d.Freed():
		case <-ctx.Done():
			return ownership.ErrDraining
		}
	}
	return nil
}
