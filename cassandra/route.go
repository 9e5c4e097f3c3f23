package cassandra

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/gocql/gocql"
)

// route says where a request belongs, so that the host policy need not ask the
// driver, which would prepare the statement on some node first, a frozen one
// perhaps.
type route struct {
	keyspace string
	key      []byte // of the partition, as the server hashes it; nil: anywhere
	only     string // id of the one host that may coordinate; empty: any
}

// trip is one request under way. It travels in the request's context, and the
// policy notes in it what it chose.
type trip struct {
	route route

	mu     sync.Mutex
	policy *hostPolicy
	host   string    // id of the coordinator last chosen
	chosen time.Time // when it was
}

type tripKey struct{}

// tripOf returns the trip of a query, or nil for one that is not ours.
func tripOf(ctx context.Context) *trip {
	t, _ := ctx.Value(tripKey{}).(*trip)
	return t
}

func (t *trip) note(p *hostPolicy, host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.policy, t.host, t.chosen = p, host, p.now()
}

// patience is how long a coordinator has at least before silence speaks against
// it: a caller in a hurry is no evidence.
const patience = 250 * time.Millisecond

// report tells the policy how the coordinator did.
func (t *trip) report(err error) {
	t.mu.Lock()
	p, host, chosen := t.policy, t.host, t.chosen
	t.mu.Unlock()
	if p == nil || errors.Is(err, context.DeadlineExceeded) && p.now().Sub(chosen) < patience {
		return
	}
	p.report(host, err)
}

// partitionKey encodes the values of a partition key as the server hashes them.
func partitionKey(types []gocql.TypeInfo, vals []any) ([]byte, error) {
	var key []byte
	for i, typ := range types {
		b, err := gocql.Marshal(typ, vals[i])
		if err != nil {
			return nil, err
		}
		if len(types) == 1 {
			return b, nil
		}
		key = binary.BigEndian.AppendUint16(key, uint16(len(b)))
		key = append(append(key, b...), 0)
	}
	return key, nil
}
