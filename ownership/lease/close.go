package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// Close implements [ownership.Ownership]. The order is the point: no tenure is
// held, work is cancelled, it drains, grants go back, and only when all of that
// is done is the session deleted. While work drains the session is renewed, so
// that nobody is let in; if it does not drain in time, renewal stops and the
// session runs out under it.
func (o *Ownership) Close(ctx context.Context) error {
	o.mu.Lock()
	if o.shut {
		o.mu.Unlock()
		select {
		case <-o.closed:
			return o.closeErr
		case <-ctx.Done():
			return fmt.Errorf("closing: %w", context.Cause(ctx))
		}
	}
	o.shut = true
	o.mu.Unlock()
	o.closeErr = o.close(ctx)
	close(o.closed)
	return o.closeErr
}

func (o *Ownership) close(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(o.timing.Drain, func() {
		cancel(fmt.Errorf("after Timing.Drain = %v", o.timing.Drain))
	})
	defer timeout.Stop()

	o.beginClosing(ownership.ErrClosed)
	grants := o.grants()
	for _, g := range grants {
		g.driver.End(ownership.ErrClosed)
	}
	settled := o.quiet(ctx)
	grants = o.grants() // a claim that was under way may have been applied
	for _, g := range grants {
		g.driver.End(ownership.ErrClosed)
	}
	var working, sent []*grant
	var faults []error
	for _, g := range grants {
		select {
		case <-g.driver.Freed():
			continue
		default:
		}
		select {
		case <-g.driver.Freed():
		case <-ctx.Done():
			if g.ended.Load() {
				sent = append(sent, g)
			} else {
				working = append(working, g)
			}
		}
	}
	if len(working) > 0 {
		faults = append(faults, fmt.Errorf("%d tenures, %s (token %d) among them, have not been released: %w; their grants end with the session",
			len(working), working[0].resource, working[0].token, ownership.ErrDraining))
	}
	if len(sent) > 0 {
		faults = append(faults, fmt.Errorf("the release of %d grants, %s (token %d) among them: %w; they end with the session",
			len(sent), sent[0].resource, sent[0].token, ownership.ErrUnknown))
	}
	if !settled {
		faults = append(faults, fmt.Errorf("a claim given up is not settled: %w", ownership.ErrUnknown))
	}
	if s := o.sessions.current(); s != nil {
		close(s.stop)
		select {
		case <-s.done: // a renewal under way is resolved first: its seq decides
		case <-ctx.Done():
		}
		if len(faults) == 0 {
			if err := o.endSession(ctx, s); err != nil {
				faults = append(faults, err)
			}
		}
		s.lose(ownership.ErrClosed)
	}
	abandoned := fmt.Errorf("%w before its outcome was known: %w", ownership.ErrClosed, ownership.ErrUnknown)
	o.releases.close(abandoned)
	o.endBackground()
	for _, g := range working {
		g.driver.Abandon(abandoned)
	}
	o.quiet(context.Background()) // calls that ctx did not wait for end with o.closing
	o.goroutines.Wait()
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	return nil
}

// quiet waits until no user's call is inside and no abandoned claim is open.
func (o *Ownership) quiet(ctx context.Context) bool {
	o.mu.Lock()
	if o.calls == 0 && o.settles == 0 {
		o.mu.Unlock()
		return true
	}
	idle := make(chan struct{})
	o.idle = idle
	o.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// grants returns every grant of this process that is not given back yet.
func (o *Ownership) grants() []*grant {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []*grant
	for _, s := range o.slots {
		if s.grant != nil {
			list = append(list, s.grant)
		}
	}
	return list
}

// endSession deletes the session's row, so that waiters need not wait for it to
// expire. Nothing is held any more, so failing costs others only time.
func (o *Ownership) endSession(ctx context.Context, s *session) error {
	s.mu.Lock()
	seq := s.seq
	s.mu.Unlock()
	var pace backoff
	for {
		rctx, cancel := o.request(ctx)
		res := o.store.End(rctx, Session{ID: s.id, Owner: o.ownerText, Seq: seq})
		cancel()
		row, err := res.Current, res.Err
		if res.Outcome == ownership.Applied {
			return nil
		}
		if res.Outcome == ownership.Unknown {
			o.unknown("close", "", res.Err, ownership.Unknown)
		}
		if err != nil {
			rctx, cancel := o.request(ctx)
			row, err = o.store.Session(rctx, s.id)
			cancel()
		}
		switch {
		case err == nil && !row.Alive():
			return nil
		case err == nil:
			seq = row.Seq // a renewal whose answer was lost had been applied
		}
		if perr := pace.pause(ctx, o.timing.RequestTimeout/4); perr != nil {
			return fmt.Errorf("ending session %s: %w; it expires by itself: %w", s.id, ownership.ErrUnknown, errors.Join(perr, err))
		}
	}
}
