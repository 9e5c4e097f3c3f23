package cassandra

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// each calls f with every template of a store, by name.
func eachTemplate(t texts, f func(name string, t template)) {
	v := reflect.ValueOf(t)
	for i := range v.NumField() {
		f(v.Type().Field(i).Name, template{cql: v.Field(i).Field(0).String(), names: stringsOf(v.Field(i).Field(1))})
	}
}

func stringsOf(v reflect.Value) []string {
	var list []string
	for i := range v.Len() {
		list = append(list, v.Index(i).String())
	}
	return list
}

// The statements as the server gets them. What they are for is said where they
// are built; a change here is a change of the protocol.
func TestStatementTexts(t *testing.T) {
	want := map[string]string{
		"open":    `INSERT INTO "ks".tenure_session (id,owner,seq,ttl) VALUES (?,?,?,?) IF NOT EXISTS USING TTL ?`,
		"renew":   `UPDATE "ks".tenure_session USING TTL ? SET owner=?,seq=?,ttl=?,revoked=null WHERE id=? IF seq=? AND dead=null AND revoked=? AND ttl!=-1`,
		"kill":    `UPDATE "ks".tenure_session USING TTL ? SET seq=-1,dead=true,ttl=? WHERE id=? IF seq=? AND dead=null AND ttl!=-1`,
		"revoke":  `UPDATE "ks".tenure_session USING TTL ? SET revoked=? WHERE id=? IF seq>=0 AND dead=null AND revoked=null AND ttl!=-1`,
		"end":     `DELETE FROM "ks".tenure_session WHERE id=? IF seq=? AND dead=null AND ttl!=-1`,
		"session": `SELECT owner,seq,ttl,dead,revoked FROM "ks".tenure_session WHERE id=?`,

		"fence":  `UPDATE "ks".tenure_ownership SET fence=? WHERE bucket=? IF fence=?`,
		"insert": `INSERT INTO "ks".tenure_ownership (bucket,resource,held,session,attempt,owner) VALUES (?,?,?,?,?,?) IF NOT EXISTS`,
		"take": `UPDATE "ks".tenure_ownership SET held=?,session=?,attempt=?,owner=? WHERE bucket=? AND resource=?` +
			` IF attempt=? AND held!=-1 AND session!=ffffffff-ffff-ffff-ffff-ffffffffffff AND owner!='#'`,
		"freeRow":     `UPDATE "ks".tenure_ownership SET held=0,session=?,attempt=?,owner='' WHERE bucket=? AND resource=? IF attempt=?`,
		"deleteRow":   `DELETE FROM "ks".tenure_ownership WHERE bucket=? AND resource=? IF attempt=?`,
		"bucket":      `SELECT resource,fence,held,session,attempt,owner FROM "ks".tenure_ownership WHERE bucket=?`,
		"bucketFence": `SELECT fence FROM "ks".tenure_ownership WHERE bucket=? LIMIT 1`,
		"bucketRows":  `SELECT resource,held,session,attempt,owner FROM "ks".tenure_ownership WHERE bucket=? AND resource IN ?`,
	}
	eachTemplate(newTexts("ks"), func(name string, got template) {
		if strings.TrimSpace(got.cql) != want[name] {
			t.Errorf("%s:\n  %s\nwant\n  %s", name, got.cql, want[name])
		}
		if strings.Count(got.cql, "?") != len(got.names) {
			t.Errorf("%s: %d markers, names %v", name, strings.Count(got.cql, "?"), got.names)
		}
		delete(want, name)
	})
	for name := range want {
		t.Errorf("%s: there is no such statement", name)
	}
}

// USING TTL 0 means for ever. No statement can carry it: every TTL is a named
// parameter, and those are looked at last of all.
func TestTTLGuard(t *testing.T) {
	eachTemplate(newTexts("ks"), func(name string, tm template) {
		at := strings.Index(tm.cql, "TTL")
		if at < 0 {
			return
		}
		if !strings.HasPrefix(tm.cql[at:], "TTL ?") {
			t.Fatalf("%s has a literal TTL", name)
		}
		if i := strings.Count(tm.cql[:at], "?"); tm.names[i] != ttlParam {
			t.Fatalf("%s: its TTL is named %q", name, tm.names[i])
		}
		for _, bad := range []any{0, -1, nil, maxTTL + 1, int64(5), "5"} {
			_, err := change(t.Context(), nil, route{}, (*sessionRow).destinations, tm.bind(values{ttlParam: bad}))
			if classify(err) != ownership.NotApplied || !errors.Is(err, ownership.ErrInvalid) {
				t.Errorf("%s under TTL %v: %v", name, bad, err)
			}
		}
		if err := tm.bind(values{ttlParam: 1}).checkTTL(); err != nil {
			t.Errorf("%s under TTL 1: %v", name, err)
		}
	})
}

// No TTL is rounded: 999 ms must not become 0 (a bug of a known lock).
func TestTTLIsNeverRounded(t *testing.T) {
	s := &store{texts: newTexts("ks")}
	for _, ttl := range []time.Duration{0, -time.Second, 1, time.Millisecond, 999 * time.Millisecond, 1500 * time.Millisecond, time.Second + 1} {
		n := lease.Session{ID: lease.NewID(), Owner: "o", TTL: ttl}
		for what, r := range map[string]lease.Result[lease.Session]{
			"Open": s.Open(t.Context(), n), "Renew": s.Renew(t.Context(), n, lease.ID{}), "Revoke": s.Revoke(t.Context(), n.ID, lease.NewID(), ttl),
		} {
			if r.Outcome != ownership.NotApplied || !errors.Is(r.Err, ownership.ErrInvalid) {
				t.Errorf("%s under %v: %v, %v", what, ttl, r.Outcome, r.Err)
			}
		}
	}
	for d, want := range map[time.Duration]int{-1: 0, 0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 1 << 62: maxTTL} {
		if got := secondsUp(d); got != want {
			t.Errorf("secondsUp(%v) = %d, want %d", d, got, want)
		}
	}
}

// guard returns at the end of its context, whatever the driver does, and passes
// on a panic as an error.
func TestGuard(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	entered := make(chan struct{})
	go func() {
		<-entered
		cancel(why)
	}()
	_, err := guard(ctx, func(context.Context) (int, error) {
		close(entered)
		<-release // as gocql on a full socket
		return 1, nil
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || classify(err) != ownership.Unknown {
		t.Errorf("%v; want the context's end, its cause, and an unknown outcome", err)
	}
	_, err = guard(t.Context(), func(context.Context) (int, error) { panic("driver") })
	if err == nil || !strings.Contains(err.Error(), "driver") || classify(err) != ownership.Unknown {
		t.Errorf("%v; want the panic", err)
	}
	if v, err := guard(t.Context(), func(context.Context) (int, error) { return 7, nil }); v != 7 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	ended, cancelEnded := context.WithCancel(t.Context())
	cancelEnded()
	_, err = send(ended, route{}, func(context.Context) (int, error) { t.Error("sent"); return 0, nil })
	if classify(err) != ownership.NotApplied || !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want it not sent", err)
	}
}
