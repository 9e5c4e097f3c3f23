package ownership

import (
	"context"
	"errors"
	"fmt"
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
//   - A call of [Tenure.Release], by body or by anybody else, ends the work for
//     good: Run returns what body then returns.
//   - Run returns when ctx ends (with its cause and, if it was waiting for the
//     resource, what it was waiting for) and when own is closed (with [ErrClosed]), in both cases after body has returned and the tenure was
//     given back, as far as the authority confirms that within 10 s.
//   - Two calls for the same resource of the same Ownership never have bodies
//     running at once, even if the first ignores its cancelled context; the
//     second waits for its turn. So a body must not call Run for its own
//     resource: that call would wait for the body.
//
// Bad input is reported at once, with [ErrInvalid]. A panic of body is not
// caught; the tenure is released on its way.
func Run(ctx context.Context, own Ownership, resource string, body func(ctx context.Context, t *Tenure) error) error {
	if err := checkRun(ctx, own, resource, body); err != nil {
		return err
	}
	leave, err := enter(ctx, own, resource)
	if err != nil {
		return err
	}
	defer leave()
	var wait backoff
	for {
		began := time.Now()
		t, err := own.Acquire(ctx, resource)
		if err != nil && ctx.Err() != nil {
			return endedBy(ctx, err)
		}
		final := errors.Is(err, ErrInvalid)
		if err == nil {
			began = time.Now()
			final, err = serve(ctx, t, body)
		}
		if final || errors.Is(err, ErrClosed) {
			return err
		}
		if !wait.pause(ctx, time.Since(began)) {
			return context.Cause(ctx)
		}
	}
}

// endedBy returns why ctx ended and, so that a wait in vain can be told from one
// behind an owner, what Acquire was waiting for.
func endedBy(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func checkRun(ctx context.Context, own Ownership, resource string, body func(context.Context, *Tenure) error) error {
	var faults []error
	if ctx == nil {
		faults = append(faults, errNilContext)
	}
	if v := reflect.ValueOf(own); own == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		faults = append(faults, Invalid("own", "nil", "must be an Ownership", "open one with an adapter"))
	}
	if body == nil {
		faults = append(faults, Invalid("body", "nil", "must be a function", "pass the work to do while the resource is held"))
	}
	return errors.Join(append(faults, CheckResource(resource))...)
}

// releaseTimeout bounds how long Run waits for a release to be confirmed. What
// is not confirmed by then goes on in the background.
const releaseTimeout = 10 * time.Second

// serve runs body through all periods of one tenure. finished says that body
// came to its own end; otherwise err says why it is not to go on.
func serve(ctx context.Context, t *Tenure, body func(context.Context, *Tenure) error) (finished bool, err error) {
	defer func() {
		// Only here, after body has returned or panicked: work stops before
		// release (DESIGN 2.6). Not under ctx, which may have ended already.
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = t.Release(release)
	}()
	for {
		if err := t.awaitHeld(ctx); err != nil {
			return false, err
		}
		if finished, err := servePeriod(ctx, t, body); finished {
			return true, err
		}
	}
}

func servePeriod(ctx context.Context, t *Tenure, body func(context.Context, *Tenure) error) (finished bool, err error) {
	held, ok := t.begin()
	if !ok {
		return false, nil
	}
	defer t.end()
	work, cancel := context.WithCancelCause(context.WithValue(ctx, bodyKey{t}, true))
	defer cancel(nil)
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	defer stop()
	err = body(&bodyContext{Context: work, cancel: cancel, held: held}, t)
	// A body that returns as its context ends cannot be told from one that gave
	// up because of it, so only a context that is alive, by the clock and not by
	// a callback that may be late, makes its return an end of its own. A release
	// is the exception: it was asked for, so "defer t.Release(ctx)" in a body
	// must not make it run for ever.
	return ctx.Err() == nil && (held.Err() == nil || t.gaveBack()), err
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
	if !reflect.ValueOf(own).Comparable() {
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

const maxBackoff = 5 * time.Second

// pause waits before the next try. Only a try that lasted counts as a success: a
// tenure that is granted and lost at once, over and over, is trouble too.
func (b *backoff) pause(ctx context.Context, lasted time.Duration) bool {
	if lasted >= maxBackoff {
		b.ceiling = 0
	}
	b.ceiling = min(max(2*b.ceiling, 100*time.Millisecond), maxBackoff)
	timer := time.NewTimer(rand.N(b.ceiling) + time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
