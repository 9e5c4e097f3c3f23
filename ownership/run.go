package ownership

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"
)

// Run keeps acquiring resource and running body under it, until body finishes.
//
//   - body runs only while the tenure is held. Its context is cancelled the moment
//     that ends, with a *[NotHeldError] as the cause; it carries ctx's values.
//   - If the tenure was in doubt and is proven again, body starts anew under the
//     same token. After a loss Run acquires again, with backoff and jitter, and
//     body starts anew under a new, higher token.
//   - If body returns while its context is alive, Run releases the tenure and
//     returns what body returned. If it returns after its context was cancelled,
//     whatever it returns means "stopped", not "finished".
//   - Run returns when ctx ends (with its cause) and when own is closed (with
//     [ErrClosed]), in both cases after body has returned and the tenure was
//     given back, as far as ctx of the release, bounded by 10 s, allows.
//   - Two calls for the same resource of the same Ownership never have bodies
//     running at once, even if the first ignores its cancelled context.
//
// A panic of body is not caught; the tenure is released on its way.
func Run(ctx context.Context, own Ownership, resource string, body func(ctx context.Context, t *Tenure) error) error {
	leave, err := enter(ctx, own, resource)
	if err != nil {
		return err
	}
	defer leave()
	var wait backoff
	for {
		t, err := own.Acquire(ctx, resource)
		if err == nil {
			wait.reset()
			var finished bool
			if finished, err = serve(ctx, t, body); finished {
				return err
			}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrClosed), errors.Is(err, ErrInvalid):
			return err
		}
		if !wait.pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// releaseTimeout bounds how long Run waits for a release to be confirmed. What
// is not confirmed by then goes on in the background.
const releaseTimeout = 10 * time.Second

// serve runs body through all periods of one tenure. finished says that body
// came to its own end.
func serve(ctx context.Context, t *Tenure, body func(context.Context, *Tenure) error) (finished bool, err error) {
	defer func() {
		// Only here, after body has returned or panicked: work stops before
		// release (DESIGN 2.6). Not under ctx, which may have ended already.
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = t.Release(release)
	}()
	for {
		state, err := t.await(ctx, Suspect)
		switch {
		case err != nil:
			return true, err
		case state.Terminal():
			return false, t.Err()
		}
		finished, err := servePeriod(ctx, t, body)
		if finished || ctx.Err() != nil {
			return finished, err
		}
	}
}

func servePeriod(ctx context.Context, t *Tenure, body func(context.Context, *Tenure) error) (finished bool, err error) {
	if !t.begin() {
		return false, t.Err()
	}
	defer t.end()
	held := t.Context()
	work, cancel := context.WithCancelCause(context.WithValue(ctx, bodyKey{}, t))
	defer cancel(nil)
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	defer stop()
	err = body(&bodyContext{Context: work, cancel: cancel, held: held}, t)
	// A body that returns as its context ends cannot be told from one that gave
	// up because of it, so only a context that is alive, by the clock and not by
	// a callback that may be late, makes its return an end of its own.
	if held.Err() == nil && ctx.Err() == nil {
		return true, err
	}
	return false, err
}

// bodyContext carries the values and the end of Run's own context and ends with
// the period of Held. Its Err does not wait for the callback that links the two,
// so work that slept is told at once.
type bodyContext struct {
	context.Context
	cancel context.CancelCauseFunc
	held   context.Context
}

func (c *bodyContext) Err() error {
	if c.held.Err() != nil {
		c.cancel(context.Cause(c.held))
	}
	return c.Context.Err()
}

// enter makes calls of Run for one resource of one Ownership take turns.
func enter(ctx context.Context, own Ownership, resource string) (leave func(), err error) {
	if !reflect.TypeOf(own).Comparable() {
		return func() {}, nil // no identity to tell it by; the authority still arbitrates
	}
	key := turnKey{own, resource}
	for {
		mine := make(chan struct{})
		other, taken := turns.LoadOrStore(key, mine)
		if !taken {
			return func() {
				turns.Delete(key)
				close(mine)
			}, nil
		}
		select {
		case <-other.(chan struct{}):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

type turnKey struct {
	own      Ownership
	resource string
}

var turns sync.Map // turnKey → chan struct{}, closed when the turn ends

// backoff grows from 100 ms to 5 s, with full jitter, so that processes which
// lost together do not come back together.
type backoff struct {
	ceiling time.Duration
}

func (b *backoff) reset() { b.ceiling = 0 }

func (b *backoff) pause(ctx context.Context) bool {
	b.ceiling = min(max(2*b.ceiling, 100*time.Millisecond), 5*time.Second)
	timer := time.NewTimer(rand.N(b.ceiling) + time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
