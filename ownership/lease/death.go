package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// deaths remembers sessions that are dead for good, and from when on their grants
// may be claimed. One inquiry for each session is under way at a time, whoever
// waits for it: a dead process costs one certificate, not one for each resource.
type deaths struct {
	mu        sync.Mutex
	at        map[ID]time.Time
	inquiries map[ID]*inquiry
}

// inquiry is one look at a session; its fields are set before done is closed.
type inquiry struct {
	done      chan struct{}
	alive     bool
	ready     time.Time
	err       error
	abandoned bool // err is that of a context, not of the authority
}

// known returns since when the grants of a session may be claimed, if it is known
// to be dead.
func (d *deaths) known(id ID) (ready time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ready, ok = d.at[id]
	return ready, ok
}

// find finds out whether a session is alive. If it is not, it makes sure that it
// never will be, and returns since when its grants may be claimed.
func (d *deaths) find(ctx context.Context, o *Ownership, id ID) (alive bool, ready time.Time, err error) {
	for {
		d.mu.Lock()
		if ready, ok := d.at[id]; ok {
			d.mu.Unlock()
			return false, ready, nil
		}
		q := d.inquiries[id]
		if q == nil {
			q = &inquiry{done: make(chan struct{})}
			if d.inquiries == nil {
				d.inquiries = map[ID]*inquiry{}
			}
			d.inquiries[id] = q
			d.mu.Unlock()
			q.alive, q.ready, q.err = o.settleDeath(ctx, id)
			q.abandoned = q.err != nil && ctx.Err() != nil
			d.mu.Lock()
			delete(d.inquiries, id)
			d.mu.Unlock()
			close(q.done)
			return q.alive, q.ready, q.err
		}
		d.mu.Unlock()
		select {
		case <-q.done:
			if !q.abandoned {
				return q.alive, q.ready, q.err
			}
		case <-ctx.Done():
			return false, time.Time{}, context.Cause(ctx)
		}
	}
}

// record notes a death and returns since when its grants may be claimed. The
// first sight counts: what a certificate asks to wait is waited from then.
func (d *deaths) record(id ID, ready time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.at[id]; ok {
		return known
	}
	if d.at == nil || len(d.at) >= maxKnown {
		d.at = map[ID]time.Time{} // one read finds each out again
	}
	d.at[id] = ready
	return ready
}

// settleDeath asks the authority. Servers' clocks differ, so "expired" may be one
// server's opinion, and a renewal begun before the expiry may still be under way:
// only a death certificate is final.
func (o *Ownership) settleDeath(ctx context.Context, id ID) (alive bool, ready time.Time, err error) {
	fail := func(err error) (bool, time.Time, error) {
		return false, time.Time{}, fmt.Errorf("declaring session %s dead: %w", id, err)
	}
	kill := doubt{o: o, op: "kill"}
	var pace backoff
	for {
		rctx, cancel := o.request(ctx)
		row, err := o.store.Session(rctx, id)
		cancel()
		if err != nil {
			return false, time.Time{}, fmt.Errorf("reading session %s: %w", id, err)
		}
		if alive, ready, settled := o.judge(id, row); settled {
			if !alive {
				kill.ends(ownership.Applied)
			}
			return alive, ready, nil
		}
		rctx, cancel = o.request(ctx)
		res := o.store.Kill(rctx, id, nil, 0)
		cancel()
		switch {
		case res.Outcome == ownership.Applied:
			kill.ends(ownership.Applied)
			return false, o.deaths.record(id, o.clock.Now().Add(o.cfg.LockDelay)), nil
		case res.Outcome == ownership.Unknown:
			// Sending it again is safe: it kills only what is dead already, and a
			// late copy finds the certificate of the one before.
			kill.arises(res.Err)
		case res.Err != nil:
			return fail(res.Err)
		default:
			if alive, ready, settled := o.judge(id, res.Current); settled {
				return alive, ready, nil
			}
		}
		if err := pace.pause(ctx, o.timing.RequestTimeout/4); err != nil {
			return fail(err)
		}
	}
}

// judge reads a session's row; settled is false when it has merely expired.
func (o *Ownership) judge(id ID, row Session) (alive bool, ready time.Time, settled bool) {
	switch {
	case row.Dead:
		return false, o.deaths.record(id, o.clock.Now().Add(row.Wait+o.cfg.LockDelay)), true
	case row.Alive():
		return true, time.Time{}, true
	}
	return false, time.Time{}, false
}
