package cassandra

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

// scripted is a partition that answers a takeover as a test says.
type scripted struct {
	raises func(n int) reply
	n      int
	now    cells
}

func (s *scripted) raise(context.Context, ownership.Token, bool) reply {
	s.n++
	return s.raises(s.n)
}

func (s *scripted) advance(context.Context, ownership.Token, *int64, int64, gocql.UUID, []statement) reply {
	return reply{outcome: ownership.NotApplied, err: gocql.ErrSessionClosed}
}

func (s *scripted) look(context.Context) (cells, error) { return s.now, nil }

// A token that may have been installed, or was, is never reported as not applied,
// whatever happens afterwards (DESIGN 8.4).
func TestTakeOverThatMayHaveInstalled(t *testing.T) {
	token := int64(7)
	for name, p := range map[string]*scripted{
		"LostThenClosed": {raises: func(n int) reply {
			if n == 1 {
				return reply{outcome: ownership.Unknown, err: errors.New("timeout")}
			}
			return reply{outcome: ownership.NotApplied, err: gocql.ErrSessionClosed}
		}},
		"InstalledThenClosed": {raises: func(int) reply { return reply{outcome: ownership.Applied} }, now: cells{fence: &token}},
		"InstalledThenGone":   {raises: func(int) reply { return reply{outcome: ownership.Applied} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &Writer{f: &Fence{}, stamp: fence.Stamp{Token: 7}, turn: make(chan struct{}, 1), p: p}
				if v, err := w.takeOver(t.Context()); v != fence.Unknown || !errors.Is(err, ownership.ErrUnknown) {
					t.Errorf("%s, %v; want unknown", v, err)
				}
			})
		})
	}
}

// What is sent, however often, is what the caller gave at first.
func TestValuesAreCopied(t *testing.T) {
	b := []byte("before")
	m, err := gocql.Marshal(gocql.NewNativeType(4, gocql.TypeBlob, ""), b)
	if err != nil {
		t.Fatal(err)
	}
	if &m[0] != &b[0] {
		t.Log("gocql copies by itself")
	}
	key, _, err := (&Fence{cfg: FenceConfig{Keyspace: "k", Table: "t"}, keys: []string{"id"},
		types: []gocql.TypeInfo{gocql.NewNativeType(4, gocql.TypeBlob, "")}}).partition([]any{b})
	if err != nil {
		t.Fatal(err)
	}
	copy(b, "after!")
	sent, err := gocql.Marshal(gocql.NewNativeType(4, gocql.TypeBlob, ""), key[keyParam(0)])
	if err != nil || string(sent) != "before" {
		t.Errorf("the key that is sent is %q, %v; want the one that was given", sent, err)
	}
}
