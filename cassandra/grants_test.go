package cassandra

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

func ptr[T any](v T) *T { return &v }

// What a refused batch returned, in each of its shapes.
func TestRefusal(t *testing.T) {
	session, attempt := lease.NewID(), lease.NewID()
	row := func(r string) grantRow {
		return grantRow{resource: &r, fence: ptr(int64(9)), held: ptr(int64(7)), session: ptr(gocql.UUID(session)), attempt: ptr(gocql.UUID(attempt)), owner: ptr("o#1")}
	}
	grant := lease.Grant{Resource: "a", Found: true, Token: 7, Session: session, Attempt: attempt, Owner: "o#1"}
	whole := []string{"bucket", "resource", "fence", "held", "session", "attempt", "owner"}
	for _, c := range []struct {
		name    string
		columns []string
		rows    []grantRow
		want    lease.Bucket
	}{
		{"every existing row, whole", whole, []grantRow{row("a")},
			lease.Bucket{Fence: 9, Rows: map[string]lease.Grant{"a": grant}}},
		{"none of them exists", whole, []grantRow{{fence: ptr(int64(9))}}, lease.Bucket{Fence: 9}},
		{"no fence yet", whole, []grantRow{{}}, lease.Bucket{}},
		{"columns of the conditions only", []string{"bucket", "resource", "attempt"}, []grantRow{row("a")},
			lease.Bucket{Fence: 9, Partial: true}},
		{"the fence only", []string{"fence"}, []grantRow{{fence: ptr(int64(3))}}, lease.Bucket{Fence: 3, Partial: true}},
		{"absent partition", nil, []grantRow{{}}, lease.Bucket{Partial: true}},
		{"a free marker", whole, []grantRow{{resource: ptr("m"), fence: ptr(int64(4)), held: ptr(int64(0)), session: &gocql.UUID{}, attempt: &gocql.UUID{}, owner: ptr("")}},
			lease.Bucket{Fence: 4, Rows: map[string]lease.Grant{"m": {Resource: "m", Found: true}}}},
		{"a row without an attempt", whole, []grantRow{{resource: ptr("x"), fence: ptr(int64(4))}},
			lease.Bucket{Fence: 4, Rows: map[string]lease.Grant{"x": {Resource: "x", Found: true, Attempt: noAttempt}}}},
	} {
		a := answer[grantRow]{rows: c.rows, columns: map[string]bool{appliedColumn: true}}
		for _, name := range c.columns {
			a.columns[name] = true
		}
		c.want.Name = "b"
		if c.want.Rows == nil {
			c.want.Rows = map[string]lease.Grant{}
		}
		if got := refusal("b", a); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestClaimStatements(t *testing.T) {
	s := newStore(nil, Config{Keyspace: "ks"}.withDefaults())
	over := lease.NewID()
	c := lease.Claim{Bucket: "b", Next: 1, Session: lease.NewID(), Attempt: lease.NewID(), Owner: "o", Rows: []lease.ClaimRow{
		{Resource: "new"}, {Resource: "dead", Found: true, Over: over}, {Resource: "free", Found: true}, {Resource: "odd", Found: true, Over: noAttempt},
	}}
	stmts, err := s.claim(c)
	if err != nil {
		t.Fatal(err)
	}
	arg := func(i int, name string) any {
		for n, have := range stmts[i].names {
			if have == name {
				return stmts[i].args[n]
			}
		}
		t.Fatalf("statement %d has no %s", i, name)
		return nil
	}
	if arg(0, "expected") != nil || arg(0, "next") != int64(1) {
		t.Errorf("the fence: %v", stmts[0].args)
	}
	if stmts[1].cql != s.texts.insert.cql {
		t.Errorf("a new row: %s", stmts[1].cql)
	}
	for i, want := range []any{gocql.UUID(over), gocql.UUID{}, nil} {
		if got := arg(2+i, "over"); got != want {
			t.Errorf("row %d is taken over attempt %v, want %v", 2+i, got, want)
		}
	}
	for name, spoil := range map[string]func(*lease.Claim){
		"token not above the fence": func(c *lease.Claim) { c.Fence = 1 },
		"negative fence":            func(c *lease.Claim) { c.Fence = -1 },
		"no attempt":                func(c *lease.Claim) { c.Attempt = lease.ID{} },
		"a resource twice":          func(c *lease.Claim) { c.Rows = append(c.Rows, lease.ClaimRow{Resource: "new"}) },
		"too many rows": func(c *lease.Claim) {
			for i := range maxBatch {
				c.Rows = append(c.Rows, lease.ClaimRow{Resource: fmt.Sprint(i)})
			}
		},
	} {
		bad := c
		bad.Rows = append([]lease.ClaimRow(nil), c.Rows...)
		spoil(&bad)
		if r := s.Claim(t.Context(), bad); r.Outcome != ownership.NotApplied || r.Err == nil {
			t.Errorf("%s: %v, %v; want it not sent", name, r.Outcome, r.Err)
		}
	}
	if r := s.Release(t.Context(), "b", []lease.Grant{{Resource: "r"}}); r.Outcome != ownership.NotApplied || r.Err == nil {
		t.Errorf("a release without an attempt: %v, %v; want it not sent", r.Outcome, r.Err)
	}
}

// The bucket rule is part of the stored format: these never change.
func TestBucketRule(t *testing.T) {
	for _, c := range []struct {
		rule     Buckets
		resource string
		want     string
	}{
		{0, "shard-7", "shard-7"},
		{1, "shard-7", "bucket-0-of-1"},
		{8, "shard-7", "bucket-7-of-8"},
		{8, "payments/3", "bucket-0-of-8"},
		{10000, "日本", "bucket-7169-of-10000"},
	} {
		if got := c.rule.of(c.resource); got != c.want {
			t.Errorf("%d buckets: %q is in %q, want %q", c.rule, c.resource, got, c.want)
		}
	}
	count := map[string]int{}
	for i := range 8000 {
		count[Buckets(8).of(fmt.Sprintf("shard-%d", i))]++
	}
	for b, n := range count {
		if n < 700 || n > 1300 || !strings.HasSuffix(b, "-of-8") {
			t.Errorf("%s has %d of 8000 resources", b, n)
		}
	}
}

func TestSessionOf(t *testing.T) {
	id, revoked := lease.NewID(), lease.NewID()
	for _, c := range []struct {
		name  string
		row   sessionRow
		want  lease.Session
		alive bool
	}{
		{"alive", sessionRow{owner: ptr("o"), seq: ptr(int64(3)), ttl: ptr(15)}, lease.Session{Owner: "o", Seq: 3, TTL: 15e9, Found: true}, true},
		{"revoked", sessionRow{seq: ptr(int64(0)), ttl: ptr(15), revoked: ptr(gocql.UUID(revoked))}, lease.Session{TTL: 15e9, Found: true, Revoked: revoked}, true},
		{"certificate", sessionRow{seq: ptr(int64(-1)), dead: ptr(true), ttl: ptr(7)}, lease.Session{Seq: -1, Found: true, Dead: true, Wait: 7e9}, false},
		{"dead by its seq", sessionRow{seq: ptr(int64(-1)), ttl: ptr(0)}, lease.Session{Seq: -1, Found: true, Dead: true}, false},
		{"a cell left over", sessionRow{revoked: ptr(gocql.UUID(revoked))}, lease.Session{Revoked: revoked}, false},
	} {
		c.want.ID = id
		got := sessionOf(id, []sessionRow{c.row})
		if got != c.want || got.Alive() != c.alive {
			t.Errorf("%s: %+v (alive %v), want %+v", c.name, got, got.Alive(), c.want)
		}
	}
	if got := sessionOf(id, nil); got != (lease.Session{ID: id}) {
		t.Errorf("absent: %+v", got)
	}
}
