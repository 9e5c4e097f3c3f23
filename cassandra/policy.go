package cassandra

import (
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"
)

// hostPolicy chooses the coordinator. Requests of this package go to one replica
// of their partition, the same for every process, as long as it answers: rounds
// of one partition that two coordinators drive time each other out. When it does
// not answer, the next request goes to another one, and the silent one is left
// alone for a while. All other queries of the session go to the policy that it
// had before.
//
// gocql tells a policy of most failures, but not of a request that ran into the
// end of its context. So the client reports every outcome itself: see trip.
type hostPolicy struct {
	dc      string // coordinators must be in this data centre; empty: any
	replica gocql.HostSelectionPolicy
	rest    gocql.HostSelectionPolicy
	now     func() time.Time

	mu       sync.Mutex
	known    map[string]bool // keyspaces whose replicas are being, or have been, looked up
	suspects map[string]*suspect
}

// suspect is a host that did not answer.
type suspect struct {
	strikes blame
	step    time.Duration // 0: not avoided yet
	until   time.Time
}

const (
	firstAvoidance = 10 * time.Second
	maxAvoidance   = time.Minute
)

// newHostPolicy returns a policy. rest may be nil, for gocql's default.
func newHostPolicy(dc string, rest gocql.HostSelectionPolicy) *hostPolicy {
	if rest == nil {
		rest = gocql.RoundRobinHostPolicy()
	}
	return &hostPolicy{
		dc:       dc,
		replica:  gocql.TokenAwareHostPolicy(&orderedHosts{dc: dc}), // without shuffling: the order is the point
		rest:     rest,
		now:      time.Now,
		known:    map[string]bool{},
		suspects: map[string]*suspect{},
	}
}

// Pick implements [gocql.HostSelectionPolicy].
func (p *hostPolicy) Pick(q gocql.ExecutableQuery) gocql.NextHost {
	if q == nil {
		return p.rest.Pick(q)
	}
	t := tripOf(q.Context())
	if t == nil {
		return p.rest.Pick(q)
	}
	p.learn(t.route.keyspace)
	var hosts []gocql.SelectedHost
	next := p.replica.Pick(routedQuery{q, t.route})
	for h := next(); h != nil; h = next() {
		if info := h.Info(); info != nil && (t.route.only == "" || t.route.only == info.HostID()) {
			hosts = append(hosts, h)
		}
	}
	if t.route.only == "" {
		hosts = p.order(hosts)
	}
	return func() gocql.SelectedHost {
		if len(hosts) == 0 {
			return nil
		}
		h := hosts[0]
		hosts = hosts[1:]
		id := h.Info().HostID()
		t.note(p, id)
		if t.route.only == "" {
			p.probe(id)
		}
		return chosen{h.Info()}
	}
}

// order moves hosts that are avoided to the end.
func (p *hostPolicy) order(hosts []gocql.SelectedHost) []gocql.SelectedHost {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	var good, avoided []gocql.SelectedHost
	for _, h := range hosts {
		if s := p.suspects[h.Info().HostID()]; s != nil && now.Before(s.until) {
			avoided = append(avoided, h)
		} else {
			good = append(good, h)
		}
	}
	return append(good, avoided...)
}

// probe notes that a host which was avoided is tried again. Until that request
// has an outcome the others go on avoiding it: only one pays for the attempt.
func (p *hostPolicy) probe(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.suspects[host]; s != nil && s.step > 0 {
		if now := p.now(); !now.Before(s.until) {
			s.until = now.Add(s.step)
		}
	}
}

// report takes the outcome of a request that the host coordinated.
func (p *hostPolicy) report(host string, err error) {
	how := blameFor(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if how == innocent {
		if err == nil {
			delete(p.suspects, host)
		}
		return
	}
	s := p.suspects[host]
	if s == nil {
		s = &suspect{}
		p.suspects[host] = s
	}
	if s.strikes += how; s.strikes < guilty {
		return
	}
	s.strikes = 0
	s.step = min(max(2*s.step, firstAvoidance), maxAvoidance)
	s.until = p.now().Add(s.step)
}

// learn looks up the replicas of a keyspace, in the background: it may take the
// driver seconds, and until then the ring's primary owner is good enough. gocql
// does so by itself only for the session's own keyspace.
func (p *hostPolicy) learn(keyspace string) {
	if keyspace == "" {
		return
	}
	p.mu.Lock()
	known := p.known[keyspace]
	p.known[keyspace] = true
	p.mu.Unlock()
	if !known {
		go p.replica.KeyspaceChanged(gocql.KeyspaceUpdateEvent{Keyspace: keyspace})
	}
}

func (p *hostPolicy) ringChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.known)
}

func (p *hostPolicy) forgive(host *gocql.HostInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.suspects, host.HostID())
}

// Init and the methods below pass on what the driver tells.
func (p *hostPolicy) Init(s *gocql.Session) {
	p.replica.Init(s)
	p.rest.Init(s)
}

func (p *hostPolicy) SetPartitioner(name string) {
	p.replica.SetPartitioner(name)
	p.rest.SetPartitioner(name)
}

func (p *hostPolicy) KeyspaceChanged(e gocql.KeyspaceUpdateEvent) {
	p.replica.KeyspaceChanged(e)
	p.rest.KeyspaceChanged(e)
}

func (p *hostPolicy) IsLocal(h *gocql.HostInfo) bool { return p.rest.IsLocal(h) }

func (p *hostPolicy) AddHost(h *gocql.HostInfo) {
	p.replica.AddHost(h)
	p.rest.AddHost(h)
	p.ringChanged()
}

func (p *hostPolicy) RemoveHost(h *gocql.HostInfo) {
	p.replica.RemoveHost(h)
	p.rest.RemoveHost(h)
	p.ringChanged()
	p.forgive(h)
}

func (p *hostPolicy) HostUp(h *gocql.HostInfo) {
	p.replica.HostUp(h)
	p.rest.HostUp(h)
	p.forgive(h)
}

func (p *hostPolicy) HostDown(h *gocql.HostInfo) {
	p.replica.HostDown(h)
	p.rest.HostDown(h)
}

// Ready implements [gocql.ReadyPolicy] for a rest that does.
func (p *hostPolicy) Ready() bool {
	r, ok := p.rest.(gocql.ReadyPolicy)
	return ok && r.Ready()
}

// chosen is a host that was picked. Its Mark is deaf: see hostPolicy.
type chosen struct{ host *gocql.HostInfo }

func (c chosen) Info() *gocql.HostInfo { return c.host }
func (chosen) Mark(error)              {}

// routedQuery is a query that knows where it belongs.
type routedQuery struct {
	gocql.ExecutableQuery
	route route
}

func (q routedQuery) GetRoutingKey() ([]byte, error) { return q.route.key, nil }
func (q routedQuery) Keyspace() string               { return q.route.keyspace }

// orderedHosts yields every host of the data centre in an order that depends
// only on the partition: where requests go that know no replica, and when none
// answers.
type orderedHosts struct {
	dc string

	mu    sync.RWMutex
	hosts []*gocql.HostInfo // by id
}

func (o *orderedHosts) Pick(q gocql.ExecutableQuery) gocql.NextHost {
	o.mu.RLock()
	hosts := o.hosts // never changed in place
	o.mu.RUnlock()
	first := 0
	if r, ok := q.(routedQuery); ok && len(hosts) > 0 {
		h := fnv.New32a()
		_, _ = h.Write(r.route.key)
		first = int(h.Sum32() % uint32(len(hosts)))
	}
	i := 0
	return func() gocql.SelectedHost {
		for i < len(hosts) {
			h := hosts[(first+i)%len(hosts)]
			i++
			if h.IsUp() && o.IsLocal(h) {
				return chosen{h}
			}
		}
		return nil
	}
}

// IsLocal takes a nil host too, which gocql asks about while the ring is empty.
func (o *orderedHosts) IsLocal(h *gocql.HostInfo) bool {
	return o.dc == "" || h != nil && h.DataCenter() == o.dc
}

func (o *orderedHosts) AddHost(h *gocql.HostInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	hosts := without(o.hosts, h)
	i, _ := slices.BinarySearchFunc(hosts, h, func(a, b *gocql.HostInfo) int { return strings.Compare(a.HostID(), b.HostID()) })
	o.hosts = slices.Insert(hosts, i, h)
}

// RemoveHost implements part of [gocql.HostSelectionPolicy].
func (o *orderedHosts) RemoveHost(h *gocql.HostInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hosts = without(o.hosts, h)
}

// without returns a copy of hosts without h.
func without(hosts []*gocql.HostInfo, h *gocql.HostInfo) []*gocql.HostInfo {
	return slices.DeleteFunc(slices.Clone(hosts), func(o *gocql.HostInfo) bool { return o.HostID() == h.HostID() })
}

// A host that is down stays in its place, so that the order does not change.
func (o *orderedHosts) HostUp(h *gocql.HostInfo)                  { o.AddHost(h) }
func (o *orderedHosts) HostDown(*gocql.HostInfo)                  {}
func (o *orderedHosts) Init(*gocql.Session)                       {}
func (o *orderedHosts) SetPartitioner(string)                     {}
func (o *orderedHosts) KeyspaceChanged(gocql.KeyspaceUpdateEvent) {}
