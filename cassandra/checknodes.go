package cassandra

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

func sortedNodes(byID map[string]Node) []Node {
	return slices.SortedFunc(maps.Values(byID), func(a, b Node) int { return strings.Compare(a.Address, b.Address) })
}

// checkNodes asks every node for its settings and its clock.
func (a *admin) checkNodes(ctx context.Context, r *Report) {
	byID := map[string]Node{}
	var mu sync.Mutex
	faults := map[string]error{}
	reach := func(n Node) {
		got, err := a.inspect(ctx, n.ID)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			faults[n.ID] = err
			return
		}
		for _, known := range r.Nodes {
			if known.ID == got.ID {
				known.Settings, known.clock = got.Settings, got.clock
				byID[known.ID] = known
			}
		}
	}
	// With our host policy each goes to its node. With another one they go round,
	// in turns, until everyone was met or there is little hope.
	for range tries {
		missing := slices.DeleteFunc(slices.Clone(r.Nodes), func(n Node) bool { return byID[n.ID].Settings != nil })
		var wg sync.WaitGroup
		for _, n := range missing {
			wg.Go(func() { reach(n) })
		}
		wg.Wait()
	}
	for i, n := range r.Nodes {
		met, ok := byID[n.ID]
		if !ok {
			why := "no request reached it; use a session from Connect"
			if err := faults[n.ID]; err != nil {
				why = err.Error()
			}
			r.Unchecked = append(r.Unchecked, fmt.Sprintf("settings and clock of node %s: %s", n.Address, why))
			continue
		}
		r.Nodes[i] = met
		a.checkNode(r, met)
	}
	a.checkClocks(r)
	a.checkVariants(r)
}

func (a *admin) checkNode(r *Report, n Node) {
	subject := "node " + n.Address
	if len(n.Settings) == 0 {
		r.Unchecked = append(r.Unchecked, "settings of "+subject+": it shows none")
		return
	}
	if v := n.Settings["paxos_variant"]; strings.Contains(v, "without_linearizable") {
		r.add(Error, subject, "paxos_variant is "+v, "reads are not linearizable, so two owners could hold one resource", "set it to v2")
	} else if v == "v1" {
		r.add(Warning, subject, "paxos_variant is v1", "ownership is not exclusive while nodes join or leave, and every request takes more round trips", "set it to v2, and run Paxos repairs")
	}
	if n.Settings["commitlog_sync"] == "periodic" {
		r.add(Warning, subject, "commitlog_sync is periodic", "a power failure of a quorum at once loses the last seconds of tokens", "set it to batch or group, or raise TokenFloor after such a failure")
	}
	timing := a.cfg.Timing
	if d, ok := parseServerDuration(n.Settings["cas_contention_timeout"]); ok && d >= timing.RequestTimeout {
		r.add(Warning, subject, fmt.Sprintf("cas_contention_timeout is %v, not below Timing.RequestTimeout = %v", d, timing.RequestTimeout),
			"slow requests end without an answer, so that each must be read back", "lower it, or raise RequestTimeout")
	}
	if d, ok := parseServerDuration(n.Settings["native_transport_timeout"]); ok && d > timing.TTL {
		r.add(Warning, subject, fmt.Sprintf("native_transport_timeout is %v, above Timing.TTL = %v", d, timing.TTL),
			"a renewal that waited in its queue can keep a dead process in office that much longer", "lower it, or raise TTL")
	}
}

// checkClocks compares clocks pairwise.
func (a *admin) checkClocks(r *Report) {
	skew := a.cfg.Timing.Skew
	for i, n := range r.Nodes {
		for _, m := range r.Nodes[i+1:] {
			if d := n.clock.apart(m.clock); d > skew {
				r.add(Error, fmt.Sprintf("nodes %s and %s", n.Address, m.Address),
					fmt.Sprintf("their clocks differ by at least %v, more than Timing.Skew = %v", d.Round(time.Millisecond), skew),
					"an owner can believe in a lease that another node has ended", "repair NTP, or raise Skew")
			}
		}
	}
}

// checkVariants looks for nodes that disagree.
func (a *admin) checkVariants(r *Report) {
	variants := map[string]bool{}
	for _, n := range r.Nodes {
		if v := n.Settings["paxos_variant"]; v != "" {
			variants[v] = true
		}
	}
	if len(variants) > 1 {
		r.add(Warning, "cluster", "paxos_variant differs between nodes: "+strings.Join(slices.Sorted(maps.Keys(variants)), ", "),
			"the weaker one holds", "set it to v2 on every node")
	}
}
