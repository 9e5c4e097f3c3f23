package lease

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spreads repeated requests: pauses double up to a limit, with jitter, so
// that processes which failed together do not come back together.
type backoff struct {
	n int
}

func (b *backoff) reset() { b.n = 0 }

// next returns how long to pause, at most limit.
func (b *backoff) next(limit time.Duration) time.Duration {
	ceiling := min(10*time.Millisecond<<min(b.n, 20), max(limit, time.Millisecond))
	b.n++
	return ceiling/2 + rand.N(ceiling/2+1)
}

// pause waits, or returns why ctx ended.
func (b *backoff) pause(ctx context.Context, limit time.Duration) error {
	return sleep(ctx, b.next(limit))
}

// pauseAfter is pause that lets the first free tries pass without waiting.
func (b *backoff) pauseAfter(ctx context.Context, free int, limit time.Duration) error {
	if b.n < free {
		b.n++
		return ctx.Err()
	}
	return b.pause(ctx, limit)
}

// jitter returns a duration of half to one and a half times d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d+1) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
