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
	if o == nil || o.store == nil {
		return nil // New failed, so nothing is open
	}
	if ctx == nil {
		return fmt.Errorf("closing: %w", errNilContext)
	}
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
	// A hook of the user's that panics in here passes through. Renewal ends all the
	// same: a process that has closed must not hold for ever.
	defer close(o.closed)
	defer o.endBackground()
	if err := o.close(ctx); err != nil {
		o.closeErr = fmt.Errorf("closing: %w", err)
	}
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
	o.endTenures()
	settled := o.quiet(ctx)
	grants := o.endTenures() // a claim that was under way may have been applied
	working, leaving := drain(ctx, grants)
	err := leftovers(working, leaving, settled)
	if s := o.sessions.current(); s != nil {
		close(s.stop)
		select {
		case <-s.done: // a renewal under way is resolved first: its seq decides
		case <-ctx.Done():
		}
		if err == nil {
			err = o.endSession(ctx, s)
		}
		if err == nil {
			s.lose(ownership.ErrClosed)
		} else {
			s.lose(fmt.Errorf("%w: %w", ownership.ErrClosed, err))
		}
	}

	// What is still open ends here, whatever the network does.
	open := fmt.Errorf("%w before its outcome was known: %w", ownership.ErrClosed, ownership.ErrUnknown)
	o.releases.close(open)
	o.endBackground()
	for _, g := range working {
		g.driver.Abandon(open)
	}
	o.quiet(context.Background()) // calls that ctx did not wait for have ended with o.closing
	o.goroutines.Wait()
	return err
}

// endTenures ends every tenure of this process and cancels its work, and returns
// all grants that have not been given back.
func (o *Ownership) endTenures() []*grant {
	o.mu.Lock()
	var list []*grant
	for _, s := range o.slots {
		if s.grant != nil {
			list = append(list, s.grant)
		}
	}
	o.mu.Unlock()
	for _, g := range list {
		g.driver.End(ownership.ErrClosed)
	}
	return list
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

// drain waits until all grants have been given back, and returns those whose work
// goes on and those whose release is under way when ctx ends.
func drain(ctx context.Context, grants []*grant) (working, leaving []*grant) {
	for _, g := range grants {
		freed := g.driver.Freed()
		select {
		case <-freed:
		case <-ctx.Done():
			select {
			case <-freed:
				continue
			default:
			}
			if g.leaving.Load() {
				leaving = append(leaving, g)
			} else {
				working = append(working, g)
			}
		}
	}
	return working, leaving
}

// leftovers says what will end with the session only, so that it must not be
// deleted.
func leftovers(working, leaving []*grant, settled bool) error {
	var faults []error
	if len(working) > 0 {
		faults = append(faults, fmt.Errorf("%d tenures, %s (token %d) among them, have not been released: %w; their grants end with the session",
			len(working), working[0].resource, working[0].token, ownership.ErrDraining))
	}
	if len(leaving) > 0 {
		faults = append(faults, fmt.Errorf("the release of %d grants, %s (token %d) among them: %w; they end with the session",
			len(leaving), leaving[0].resource, leaving[0].token, ownership.ErrUnknown))
	}
	if !settled {
		faults = append(faults, fmt.Errorf("a claim given up is not settled: %w; its grant, if there is one, ends with the session",
			ownership.ErrUnknown))
	}
	return errors.Join(faults...)
}

// endSession deletes the session's row, so that waiters need not wait for it to
// expire. Nothing is held any more, so failing costs others only time.
func (o *Ownership) endSession(ctx context.Context, s *session) error {
	s.mu.Lock()
	seq := s.seq
	s.mu.Unlock()
	d := doubt{o: o, op: "close"}
	var pace backoff
	for {
		rctx, cancel := o.request(ctx)
		res := o.store.End(rctx, Session{ID: s.id, Owner: o.ownerText, Seq: seq})
		cancel()
		row, err := res.Current, res.Err
		switch res.Outcome {
		case ownership.Applied:
			d.ends(ownership.Applied)
			return nil
		case ownership.Unknown:
			d.arises(res.Err)
		}
		if err != nil {
			rctx, cancel := o.request(ctx)
			row, err = o.store.Session(rctx, s.id)
			cancel()
		}
		switch {
		case err == nil && !row.Alive():
			d.ends(ownership.Applied)
			return nil
		case err == nil:
			seq = row.Seq // a renewal whose answer was lost had been applied
		}
		if cause := pace.pause(ctx, o.timing.RequestTimeout/4); cause != nil {
			if err = errors.Join(cause, err); d.open {
				err = fmt.Errorf("%w: %w", ownership.ErrUnknown, err)
			}
			return fmt.Errorf("ending session %s, which expires by itself: %w", s.id, err)
		}
	}
}
