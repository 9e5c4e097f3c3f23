package lease

import (
	"context"
	"sync"

	"github.com/tenure-go/tenure/ownership"
)

// buckets is what this process knows of each bucket, and the lock that keeps one
// change in flight for each: racing ones time each other out on a consensus log.
type buckets struct {
	mu    sync.Mutex
	known map[string]*bucket
}

// maxKnown bounds the knowledge kept for buckets that nobody uses. Without it
// the next claim costs one plain read more.
const maxKnown = 10_000

// bucket is the knowledge of one bucket. Only the holder of its lock touches it.
type bucket struct {
	name  string
	lock  chan struct{} // holds one token while locked
	users int           // under buckets.mu

	seen  bool // fence is worth trying
	fence ownership.Token
	rows  map[string]Grant
}

// take locks the bucket; give unlocks it, from any goroutine.
func (bs *buckets) take(ctx context.Context, name string) (*bucket, error) {
	bs.mu.Lock()
	b := bs.known[name]
	if b == nil {
		b = &bucket{name: name, lock: make(chan struct{}, 1)}
		bs.known[name] = b
	}
	b.users++
	bs.mu.Unlock()
	select {
	case b.lock <- struct{}{}:
		return b, nil
	default:
	}
	select {
	case b.lock <- struct{}{}:
		return b, nil
	case <-ctx.Done():
		bs.leave(b)
		return nil, context.Cause(ctx)
	}
}

func (bs *buckets) give(b *bucket) {
	<-b.lock
	bs.leave(b)
}

func (bs *buckets) leave(b *bucket) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b.users--
	if b.users == 0 && (len(bs.known) > maxKnown || !b.seen) {
		delete(bs.known, b.name)
	}
}

// learn takes over what a read or a refusal told. The fence never goes back in
// what is tried: a lower one is old news, unless it is authoritative.
func (b *bucket) learn(state Bucket, authoritative bool) {
	if !b.seen || authoritative || state.Fence > b.fence {
		b.fence = state.Fence
	}
	b.seen = true
	if b.rows == nil {
		b.rows = make(map[string]Grant, len(state.Rows))
	}
	for r, g := range state.Rows {
		b.rows[r] = g
	}
}

// settle records the row of a resource as we left it ourselves.
func (b *bucket) settle(fence ownership.Token, g Grant) {
	if fence > b.fence {
		b.fence = fence
	}
	b.seen = true
	if b.rows == nil {
		b.rows = map[string]Grant{}
	}
	b.rows[g.Resource] = g
}

// forget drops the knowledge, so that the next claim looks first.
func (b *bucket) forget() {
	b.seen, b.fence, b.rows = false, 0, nil
}
