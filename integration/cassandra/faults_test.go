package cassandra_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/integration/cluster"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// One silent node, whichever it coordinates: of the requests of one partition it
// swallows one or two, the next goes elsewhere. That is what Timing lets a tenure
// survive. Fenced writes settle themselves meanwhile.
func TestOneNodeSilent(t *testing.T) {
	c := server().ForTest(t)
	if !c.CanFault() || len(c.Nodes()) < 3 {
		t.Skip("needs three nodes that can be frozen")
	}
	f := newFenced(t)
	for i, node := range c.Nodes() {
		t.Run(fmt.Sprintf("node %d frozen", i), func(t *testing.T) {
			silence(t, f, c, node.Freeze)
		})
		t.Run(fmt.Sprintf("node %d killed", i), func(t *testing.T) {
			silence(t, f, c, node.Kill)
		})
	}
}

func silence(t *testing.T, f *fenced, c *cluster.Cluster, fault func() error) {
	session := connect(t, f.cfg) // that has not met the fault before
	store := newStore(t, session, f.cfg)
	fe := f.open(session)
	const partitions = 6 // with various coordinators
	var sessions []lease.Session
	var writers []*cassandra.Writer
	region := fresh(f.region)
	for n := range partitions {
		s := lease.Session{ID: lease.NewID(), Owner: "o#1", TTL: 5 * time.Minute}
		if r := store.Open(t.Context(), s); r.Outcome != ownership.Applied {
			t.Fatal(r.Err)
		}
		w, err := fe.TakeOverAs(t.Context(), stamp(1), region, n)
		if err != nil {
			t.Fatal(err)
		}
		sessions, writers = append(sessions, s), append(writers, w)
	}
	if err := fault(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Heal(context.Background()); err != nil {
			t.Fatal(err)
		}
	}()
	lost := 0
	for i := range sessions {
		sessions[i].Seq++
		for inARow := 0; !renewed(t, store, sessions[i]); {
			lost++
			if inARow++; inARow > 2 {
				t.Fatalf("session %d: three renewals in a row were lost", i)
			}
		}
	}
	began := time.Now()
	for i, w := range writers {
		if v, err := w.Write(t.Context(), f.set(region, i, 1, "x")); err != nil {
			t.Fatalf("writer %d: %v, %v", i, v, err)
		}
	}
	t.Logf("%d of %d renewals were lost; writes took %v", lost, lost+partitions, time.Since(began))
}

// renewed sends one renewal, with a read-back if its outcome is unknown.
func renewed(t *testing.T, store lease.Store, s lease.Session) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r := store.Renew(ctx, s, lease.ID{})
	if r.Outcome == ownership.NotApplied && r.Err == nil {
		if r.Current.Seq == s.Seq {
			return true // an earlier copy had been applied
		}
		t.Fatalf("the renewal is refused by %+v", r.Current)
	}
	return r.Outcome == ownership.Applied
}
