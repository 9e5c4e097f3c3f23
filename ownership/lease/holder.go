package lease

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// Holder implements [ownership.Ownership]: the row, then its session; if that is
// dead, the row again, for the resource may have changed hands in between.
func (o *Ownership) Holder(ctx context.Context, resource string) (ownership.Holder, error) {
	if err := ownership.CheckResource(resource); err != nil {
		return ownership.Holder{}, fmt.Errorf("asking for the holder: %w", err)
	}
	ctx, leave, err := o.enter(ctx)
	if err != nil {
		return ownership.Holder{}, fmt.Errorf("asking for the holder of %s: %w", resource, err)
	}
	defer leave()
	_, _, h, err := o.holder(ctx, resource)
	if err != nil {
		return ownership.Holder{}, fmt.Errorf("asking for the holder of %s: %w", resource, err)
	}
	return h, nil
}

func (o *Ownership) holder(ctx context.Context, resource string) (Grant, Session, ownership.Holder, error) {
	bucket := o.store.Bucket(resource)
	var before Grant
	for again := false; ; again = true {
		rctx, cancel := o.request(ctx)
		state, err := o.store.Grants(rctx, bucket, []string{resource})
		cancel()
		if err != nil {
			return Grant{}, Session{}, ownership.Holder{}, err
		}
		row, _ := state.Row(resource)
		vacant := ownership.Holder{Resource: resource, Fence: state.Fence}
		if row.Free() || again && row.Attempt == before.Attempt {
			return row, Session{}, vacant, nil
		}
		rctx, cancel = o.request(ctx)
		s, err := o.store.Session(rctx, row.Session)
		cancel()
		if err != nil {
			return Grant{}, Session{}, ownership.Holder{}, err
		}
		if s.Alive() {
			return row, s, holderOf(row, state.Fence), nil
		}
		before = row
	}
}

func holderOf(g Grant, fence ownership.Token) ownership.Holder {
	return ownership.Holder{
		Resource: g.Resource, Owner: ownership.ParseOwner(g.Owner), Token: g.Token, Fence: max(fence, g.Token)}
}

// Watch implements [ownership.Ownership]. It looks every PollEvery by a plain
// read; what it yields comes from a linearizable one.
func (o *Ownership) Watch(ctx context.Context, resource string) iter.Seq2[ownership.Holder, error] {
	return func(yield func(ownership.Holder, error) bool) {
		if err := ownership.CheckResource(resource); err != nil {
			yield(ownership.Holder{}, fmt.Errorf("watching: %w", err))
			return
		}
		if ctx == nil || o == nil || o.store == nil {
			_, _, err := o.enter(ctx)
			yield(ownership.Holder{}, fmt.Errorf("watching %s: %w", resource, err))
			return
		}
		bucket := o.store.Bucket(resource)
		var (
			last  ownership.Holder
			first = true
			row   Grant
			look  time.Time // when to ask for the session again
		)
		for {
			// Counted in only for the requests: a watcher that is busy with what
			// it was given does not hold up Close.
			next, seen, err := o.watchOnce(ctx, bucket, resource, first, row, &look)
			switch {
			case ctx.Err() != nil && !errors.Is(err, ownership.ErrClosed):
				return
			case err != nil:
				final := errors.Is(err, ownership.ErrClosed) || errors.Is(err, ownership.ErrInvalid)
				if !yield(ownership.Holder{}, fmt.Errorf("watching %s: %w", resource, err)) || final {
					return
				}
			case seen != nil:
				row = *seen
				if first || next.Owner != last.Owner || next.Token != last.Token {
					first, last = false, next
					if !yield(next, nil) {
						return
					}
				}
			}
			if err := o.pauseWatch(ctx); err != nil && !errors.Is(err, ownership.ErrClosed) {
				return
			}
		}
	}
}

// watchOnce looks once. seen is nil when nothing has changed.
func (o *Ownership) watchOnce(ctx context.Context, bucket, resource string, first bool, last Grant, look *time.Time) (ownership.Holder, *Grant, error) {
	ctx, leave, err := o.enter(ctx)
	if err != nil {
		return ownership.Holder{}, nil, err
	}
	defer leave()
	if !first {
		rctx, cancel := o.request(ctx)
		state, err := o.store.Peek(rctx, bucket, []string{resource})
		cancel()
		if err != nil {
			return ownership.Holder{}, nil, whyEnded(ctx, err)
		}
		row, known := state.Row(resource)
		changed := known && row.Attempt != last.Attempt
		if !changed && (row.Free() || o.clock.Now().Before(*look)) {
			return ownership.Holder{}, nil, nil
		}
	}
	*look = o.clock.Now().Add(o.timing.TTL / 4) // a session that ends changes no row
	row, _, h, err := o.holder(ctx, resource)
	if err != nil {
		return ownership.Holder{}, nil, whyEnded(ctx, err)
	}
	return h, &row, nil
}

// whyEnded prefers why ctx ended over what a request made of it.
func whyEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (o *Ownership) pauseWatch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(o.closing, func() { cancel(ownership.ErrClosed) })()
	return sleep(ctx, jitter(o.cfg.PollEvery))
}
