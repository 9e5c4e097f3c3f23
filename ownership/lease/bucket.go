package lease

import (
	"context"
	"sync"

	"github.com/tenure-go/tenure/ownership"
)

// buckets is what this process knows of each bucket, and the lock that keeps one
// change in flight for each: racing ones time each other out on a consensus log.
type buckets struct {
	mu     sync.Mutex
	byName map[string]*bucket
}

// maxKnown bounds each kind of knowledge that is only kept to save a read.
const maxKnown = 10_000

// bucket is one bucket. What it knows is touched by the holder of its lock only,
// and never trusted: a claim states what it relies on, and the store checks that.
type bucket struct {
	name  string
	lock  chan struct{} // holds one token while locked
	users int           // under buckets.mu

	known bool // fence is worth trying
	fence ownership.Token
	// highest is the highest fence that this process was ever told. The store's
	// own falls below it only by truncation or a restore; a token does not.
	highest ownership.Token
	free    map[string]bool // rows left free; true: there is a marker to be replaced
}

// take locks the bucket; give unlocks it, from any goroutine.
func (bs *buckets) take(ctx context.Context, name string) (*bucket, error) {
	bs.mu.Lock()
	b := bs.byName[name]
	if b == nil {
		if bs.byName == nil {
			bs.byName = map[string]*bucket{}
		}
		b = &bucket{name: name, lock: make(chan struct{}, 1)}
		bs.byName[name] = b
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
	if b.users == 0 && (!b.known || len(bs.byName) > maxKnown) {
		delete(bs.byName, b.name)
	}
}

// learn takes over what the authority told of the rows wanted. If it left
// anything out that a claim needs, learn returns nil: look again.
func (b *bucket) learn(state Bucket, wanted []*slot) map[string]Grant {
	rows := make(map[string]Grant, len(wanted))
	b.known = !state.Partial || state.Fence > 0
	for _, s := range wanted {
		row, told := state.Row(s.resource)
		b.known = b.known && told
		rows[s.resource] = row
	}
	b.fence, b.highest = state.Fence, max(b.highest, state.Fence)
	for r, row := range rows {
		b.note(r, b.known && row.Free(), row.Found)
	}
	if !b.known {
		return nil
	}
	return rows
}

// recall returns the rows wanted if all are known to be free, so that a claim
// need not look first.
func (b *bucket) recall(wanted []*slot) map[string]Grant {
	if !b.known {
		return nil
	}
	rows := make(map[string]Grant, len(wanted))
	for _, s := range wanted {
		marker, ok := b.free[s.resource]
		if !ok {
			return nil
		}
		rows[s.resource] = Grant{Resource: s.resource, Found: marker}
	}
	return rows
}

// note remembers whether a row is free, and if a marker is there in that case.
func (b *bucket) note(resource string, free, marker bool) {
	if !free {
		delete(b.free, resource)
		return
	}
	if b.free == nil || len(b.free) >= maxKnown {
		b.free = map[string]bool{}
	}
	b.free[resource] = marker
}

// forget drops the knowledge, so that the next claim looks first.
func (b *bucket) forget() { b.known, b.fence, b.free = false, 0, nil }
