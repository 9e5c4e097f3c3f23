package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// deaths remembers sessions that are dead for good, and from when on their
// grants may be claimed.
type deaths struct {
	mu sync.Mutex
	at map[ID]time.Time
}

func (d *deaths) ready(id ID) (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.at[id]
	return t, ok
}

// record notes a death and returns since when its grants may be claimed. The
// first sight counts: what a certificate asks to wait is waited from then.
func (d *deaths) record(id ID, ready time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.at[id]; ok {
		return known
	}
	if len(d.at) >= maxKnown {
		for other := range d.at { // any: one read finds it out again
			delete(d.at, other)
			break
		}
	}
	d.at[id] = ready
	return ready
}

// settleDeath finds out whether a session is alive. If it is not, it makes sure
// that it never will be: servers' clocks differ, so "expired" may be one server's
// opinion, and a renewal begun before the expiry may still be under way. ready is
// when its grants may be claimed.
func (o *Ownership) settleDeath(ctx context.Context, id ID) (alive bool, ready time.Time, err error) {
	if ready, ok := o.deaths.ready(id); ok {
		return false, ready, nil
	}
	var pace backoff
	for {
		rctx, cancel := o.request(ctx)
		row, err := o.store.Session(rctx, id)
		cancel()
		if err != nil {
			return false, time.Time{}, fmt.Errorf("reading session %s: %w", id, err)
		}
		if alive, ready, settled := o.judge(row); settled {
			return alive, ready, nil
		}
		rctx, cancel = o.request(ctx)
		res := o.store.Kill(rctx, id, nil, 0)
		cancel()
		switch {
		case res.Outcome == ownership.Applied:
			return false, o.deaths.record(id, o.clock.Now().Add(o.cfg.LockDelay)), nil
		case res.Outcome == ownership.NotApplied && res.Err != nil:
			return false, time.Time{}, fmt.Errorf("declaring session %s dead: %w", id, res.Err)
		case res.Outcome == ownership.NotApplied:
			if alive, ready, settled := o.judge(res.Current); settled {
				return alive, ready, nil
			}
		default:
			// Sending it again is safe: it kills only what is dead already, and a
			// late copy finds the certificate of the one before.
			o.unknown("kill", "", res.Err, ownership.Unknown)
		}
		if err := pace.pause(ctx, o.timing.RequestTimeout/4); err != nil {
			return false, time.Time{}, fmt.Errorf("declaring session %s dead: %w", id, err)
		}
	}
}

// judge reads a session's row; settled is false when it has merely expired.
func (o *Ownership) judge(row Session) (alive bool, ready time.Time, settled bool) {
	switch {
	case row.Dead:
		return false, o.deaths.record(row.ID, o.clock.Now().Add(row.Wait+o.cfg.LockDelay)), true
	case row.Alive():
		return true, time.Time{}, true
	}
	return false, time.Time{}, false
}
