package lease

import "context"

// waitFor returns nil when it is worth trying to claim the resource again: its
// row has changed, or its holder's session seems to be gone. Otherwise it returns
// why ctx ended. What it reads are hints; the claim decides. Pauses are jittered,
// so that N waiters do not come at once.
func (o *Ownership) waitFor(ctx context.Context, seen Grant) error {
	bucket := o.store.Bucket(seen.Resource)
	sessionPause := max(o.cfg.PollEvery, o.timing.TTL/8)
	nextSession := o.clock.Now().Add(jitter(sessionPause))
	for {
		pause := jitter(o.cfg.PollEvery)
		ready, dead := o.deaths.known(seen.Session)
		if dead { // its grants can be had at that very instant
			pause = min(pause, o.clock.Until(ready))
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		if dead && !o.clock.Now().Before(ready) {
			return nil
		}
		rctx, cancel := o.request(ctx)
		state, err := o.store.Peek(rctx, bucket, []string{seen.Resource})
		cancel()
		if err != nil {
			continue // trouble with the authority is waited out
		}
		if row, known := state.Row(seen.Resource); known && row.Attempt != seen.Attempt {
			if row.Free() || o.isOurs(row.Session) {
				return nil
			}
			// Another waiter was faster: wait for that one. Trying again here would
			// cost N waiters N linearizable reads at each of N handovers.
			seen = row
			continue
		}
		if dead || o.clock.Now().Before(nextSession) {
			continue
		}
		nextSession = o.clock.Now().Add(jitter(sessionPause))
		rctx, cancel = o.request(ctx)
		s, err := o.store.PeekSession(rctx, seen.Session)
		cancel()
		if err == nil && !s.Alive() {
			return nil
		}
	}
}

// isOurs reports whether id is this process's session.
func (o *Ownership) isOurs(id ID) bool {
	s := o.sessions.current()
	return s != nil && s.id == id
}
