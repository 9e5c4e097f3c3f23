package cassandra

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gocql/gocql"
)

// dialer lets a test decide what a dial does.
type dialer func(context.Context) error

func (d dialer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) { return nil, d(ctx) }

func host(i int) *gocql.HostInfo {
	h := (&gocql.HostInfo{}).SetConnectAddress(net.IPv4(127, 0, 0, byte(i)))
	h.SetHostID(fmt.Sprintf("host-%d", i))
	return h
}

// testPolicy is a policy that knows hosts 1 to n and no ring, and a clock.
func testPolicy(n int) (*hostPolicy, *time.Time) {
	p := newHostPolicy("", nil)
	now := time.Unix(0, 0)
	p.now = func() time.Time { return now }
	p.Init(&gocql.Session{})
	for i := n; i > 0; i-- { // in the wrong order
		p.AddHost(host(i))
	}
	return p, &now
}

// pick returns what the policy chooses for a request, in its order.
func pick(p *hostPolicy, r route, wanted int) []string {
	t := &trip{route: r}
	next := p.Pick((&gocql.Query{}).WithContext(context.WithValue(context.Background(), tripKey{}, t)))
	var ids []string
	for h := next(); h != nil && len(ids) < wanted; h = next() {
		ids = append(ids, h.Info().HostID())
		h.Mark(gocql.ErrTimeoutNoResponse) // is not listened to
		if t.host != h.Info().HostID() || t.policy != p {
			return []string{"the trip does not know its host"}
		}
	}
	return ids
}

func key(s string) route { return route{key: []byte(s)} }

// Every process chooses the same coordinator for a partition, every time.
func TestPolicyIsStable(t *testing.T) {
	p, _ := testPolicy(5)
	q, _ := testPolicy(5)
	q.RemoveHost(host(3))
	q.AddHost(host(3))
	first := map[string]bool{}
	for i := range 50 {
		r := key(fmt.Sprint(i))
		a, b := pick(p, r, 5), pick(q, r, 5)
		if len(a) != 5 || !slices.Equal(a, b) || !slices.Equal(a, pick(p, r, 5)) {
			t.Fatalf("partition %d: %v, %v", i, a, b)
		}
		first[a[0]] = true
	}
	if len(first) != 5 {
		t.Errorf("only %d hosts ever come first", len(first))
	}
}

// One that does not answer is left alone by the next request, of any partition,
// until a single one tries it again.
func TestPolicyAvoidsTheSilent(t *testing.T) {
	p, now := testPolicy(3)
	r := key("x")
	order := pick(p, r, 3)
	silent, second := order[0], order[1]

	p.report(silent, context.DeadlineExceeded)
	if got := pick(p, r, 3); got[0] != second || got[2] != silent {
		t.Fatalf("after a silence: %v, want %s first and %s last", got, second, silent)
	}
	p.report(silent, context.Canceled)
	p.report(silent, nil) // a late answer to somebody
	if got := pick(p, r, 1); got[0] != silent {
		t.Fatalf("it answers again: %v", got)
	}
	p.report(silent, gocql.ErrTimeoutNoResponse)
	*now = now.Add(firstAvoidance)
	if got := pick(p, r, 1); got[0] != silent {
		t.Fatalf("after a while: %v, want it tried again", got)
	}
	if got := pick(p, r, 1); got[0] != second {
		t.Fatalf("while that is under way: %v, want the others elsewhere", got)
	}
	p.report(silent, context.DeadlineExceeded)
	*now = now.Add(firstAvoidance)
	if got := pick(p, r, 1); got[0] != second {
		t.Fatalf("silent again: %v, want it left alone for longer", got)
	}
	*now = now.Add(maxAvoidance)
	if got := pick(p, r, 1); got[0] != silent {
		t.Fatalf("after the longest while: %v", got)
	}
	p.report(silent, context.DeadlineExceeded)
	p.HostUp(host(int(silent[len(silent)-1] - '0')))
	if got := pick(p, r, 1); got[0] != silent {
		t.Fatalf("the cluster says that it is up: %v", got)
	}
	// Nobody answers: somebody must be asked all the same.
	for _, h := range order {
		p.report(h, context.DeadlineExceeded)
	}
	if got := pick(p, r, 3); len(got) != 3 {
		t.Fatalf("nobody answers: %v", got)
	}
}

// A coordinator that says that others did not answer may be right, once.
func TestPolicyDoubts(t *testing.T) {
	p, _ := testPolicy(3)
	r := key("x")
	first := pick(p, r, 1)[0]
	timeout := serverError{code: gocql.ErrCodeWriteTimeout}
	p.report(first, timeout)
	if got := pick(p, r, 1); got[0] != first {
		t.Fatalf("after one server timeout: %v", got)
	}
	p.report(first, nil)
	p.report(first, timeout)
	if got := pick(p, r, 1); got[0] != first {
		t.Fatalf("an answer in between: %v", got)
	}
	p.report(first, timeout)
	if got := pick(p, r, 1); got[0] == first {
		t.Fatalf("after two server timeouts in a row: %v", got)
	}
}

// A request that had no time says nothing about its coordinator.
func TestPolicyPatience(t *testing.T) {
	p, now := testPolicy(3)
	first := pick(p, key("x"), 1)[0]
	tr := &trip{}
	tr.report(context.DeadlineExceeded) // never got as far as a host
	tr.note(p, first)
	*now = now.Add(patience - 1)
	tr.report(context.DeadlineExceeded)
	if got := pick(p, key("x"), 1); got[0] != first {
		t.Fatalf("after a hurry: %v", got)
	}
	*now = now.Add(1)
	tr.report(context.DeadlineExceeded)
	if got := pick(p, key("x"), 1); got[0] == first {
		t.Fatalf("after a silence: %v", got)
	}
}

func TestPolicyOnly(t *testing.T) {
	p, _ := testPolicy(3)
	p.report("host-2", context.DeadlineExceeded)
	if got := pick(p, route{only: "host-2"}, 3); !slices.Equal(got, []string{"host-2"}) {
		t.Errorf("only host-2: %v", got)
	}
	if got := pick(p, route{only: "host-9"}, 3); got != nil {
		t.Errorf("only a host that is not there: %v", got)
	}
}

// Under LOCAL_SERIAL no coordinator of another data centre is ever chosen. These
// hosts tell none.
func TestPolicyDataCenter(t *testing.T) {
	p := newHostPolicy("dc1", nil)
	p.Init(&gocql.Session{})
	p.AddHost(host(1))
	p.SetPartitioner("Murmur3Partitioner")
	if got := pick(p, key("x"), 1); got != nil {
		t.Errorf("a foreign host was chosen: %v", got)
	}
}

// Queries that are not ours go by the policy that was there before.
func TestPolicyLeavesOthersAlone(t *testing.T) {
	rest := gocql.SingleHostReadyPolicy(gocql.RoundRobinHostPolicy())
	p := newHostPolicy("", rest)
	p.Init(&gocql.Session{})
	if p.Ready() {
		t.Error("ready without a host")
	}
	p.AddHost(host(1))
	p.HostUp(host(1))
	if !p.Ready() {
		t.Error("the rest is ready, and yet it is not")
	}
	p.report("host-1", context.DeadlineExceeded)
	for _, q := range []gocql.ExecutableQuery{nil, &gocql.Query{}} {
		if h := p.Pick(q)(); h == nil || h.Info().HostID() != "host-1" {
			t.Errorf("a foreign query goes to %v", h)
		}
	}
	p.HostDown(host(1))
	if h := p.Pick(&gocql.Query{})(); h != nil {
		t.Error("the rest does not hear of events")
	}
	if plain, _ := testPolicy(1); plain.Ready() {
		t.Error("Ready must not cut short the connecting of a policy that knows no readiness")
	}
}
