package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cassandra"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func noEnv(string) string { return "" }

func parsed(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parse(args, noEnv, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// DESIGN 8.2, 8.3, 8.5: the story in memory, frozen at every point, with the
// fence and without it; all expectations are those that the user sees.
func TestStoryInMemory(t *testing.T) {
	for _, unfenced := range []string{"--unfenced=false", "--unfenced"} {
		for _, p := range points {
			t.Run(unfenced+"/"+p.name(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var out bytes.Buffer
					ok, err := play(t.Context(), parsed(t, "--freeze-at", p.name(), unfenced), &out)
					if err != nil || !ok {
						t.Fatalf("ok: %v, error: %v\n%s", ok, err, &out)
					}
				})
			})
		}
	}
}

func TestRepetitionsInMemory(t *testing.T) {
	for _, unfenced := range []string{"--unfenced=false", "--unfenced"} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			ok, err := play(t.Context(), parsed(t, "--repeat", "40", "--seed", "7", "--json", unfenced), &out)
			if err != nil || !ok {
				t.Fatalf("ok: %v, error: %v\n%s", ok, err, &out)
			}
			told := map[point]int{}
			for line := range strings.Lines(out.String()) {
				var r struct {
					Kind string `json:"kind"`
					OK   bool   `json:"ok"`
					result
				}
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				if r.Kind == "result" {
					told[r.Point]++
				}
			}
			for _, p := range points {
				if told[p] != 10 {
					t.Errorf("%d of 40 repetitions freeze A %v, want 10", told[p], p)
				}
			}
		})
	}
}

// A fence that lets an old token pass must not go unnoticed, nor an unfenced
// table that refuses it.
func TestBrokenTableIsNoticed(t *testing.T) {
	for _, fenced := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			o := parsed(t)
			p := o.plans()[0]
			p.fenced = fenced
			var out bytes.Buffer
			st := newMemoryStage(o.timing, !fenced) // the table does the opposite
			r, checks, err := tell(t.Context(), st, p, newTimeline(&out, false, 1))
			if err != nil || r.OK || r.Failed == 0 {
				t.Fatalf("fenced: %v, result %+v, error %v, checks %v\n%s", fenced, r, err, checks, &out)
			}
		})
	}
}

// A story that is broken off leaves no worker, frozen ones included: goleak and
// the bubble would tell.
func TestBrokenOffAtAnyTime(t *testing.T) {
	for after := time.Duration(0); after < 4*time.Second; after += 100 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("broken off")
			time.AfterFunc(after, func() { cancel(why) })
			var out bytes.Buffer
			ok, err := play(ctx, parsed(t, "--freeze-at", "in-flight"), &out)
			if !ok && !errors.Is(err, why) {
				t.Fatalf("after %v: ok %v, error %v\n%s", after, ok, err, &out)
			}
		})
	}
}

func TestTimelineFormat(t *testing.T) {
	for _, c := range []struct {
		at   time.Duration
		row  row
		want string
	}{
		{0, row{Who: "A", Text: "asks for shard-7"},
			"   0.00s  A         -  -                     asks for shard-7"},
		{2340 * time.Millisecond, row{Who: "B", Token: 2, State: "held", Verdict: "accepted", Text: `writes "B's work"`},
			`   2.34s  B         2  held       accepted   writes "B's work"`},
		{12*time.Second + 5*time.Millisecond, row{Who: "A", Token: 12345, State: "suspect", Verdict: "STALE", Text: "writes"},
			"  12.01s  A     12345  suspect    STALE      writes"},
		{time.Second, row{Who: director, Text: "THAWS A"},
			"   1.00s  demo                               THAWS A"},
	} {
		if got := c.row.format(c.at); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
	if got := (check{OK: true, Text: "it holds", Got: "x"}).format(); got != "  ok      it holds" {
		t.Errorf("got %q", got)
	}
	if got := (check{Text: "it holds", Got: "it does not"}).format(); got != "  FAILED  it holds: it does not" {
		t.Errorf("got %q", got)
	}
}

func TestTimelineForScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tl := newTimeline(&out, true, 3)
		tl.header()
		tl.text("for people")
		time.Sleep(1500 * time.Millisecond)
		tl.row(row{Who: "A", Token: 1, State: "held", Text: "writes"})
		tl.check(check{OK: true, Text: "it holds"})
		want := `{"kind":"row","repetition":3,"ms":1500,"who":"A","token":1,"state":"held","text":"writes"}
{"kind":"check","repetition":3,"ok":true,"text":"it holds"}
`
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", &out, want)
		}
	})
}

func TestAllFaultsAtOnce(t *testing.T) {
	args := []string{
		"--bogus", "--cassandra", "good,bad host,:9042,h:99999", "stray", "--keyspace", "1st", "--replication-factor", "0",
		"--password", "secret", "--repeat", "none", "--freeze-at", "sometimes", "--ttl", "1500ms", "more",
	}
	_, err := parse(args, noEnv, new(bytes.Buffer))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"bogus", `"bad host"`, `":9042"`, `"h:99999"`, `"stray"`, `"more"`, `"1st"`, "--replication-factor", "no user",
		`"none"`, `"sometimes"`, "whole seconds",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the error tells the password")
	}
	var out, errOut bytes.Buffer
	if code := run(args, noEnv, &out, &errOut); code != exitUsage || out.Len() > 0 || errOut.Len() == 0 {
		t.Errorf("exit status %d, output %q, errors %q", code, &out, &errOut)
	}
}

func TestOptions(t *testing.T) {
	for _, bad := range [][]string{
		{"--keyspace", "k"}, {"--user", "u"}, {"--ttl", "0"}, {"--ttl", "-1s"}, {"--ttl", "50ms"}, {"--ttl", "2m"},
		{"--repeat", "0"}, {"--cassandra", ""}, {"--cassandra", "h", "--ttl", "1s"}, {"--cassandra", "h", "--ttl", "2500ms"},
	} {
		if _, err := parse(bad, noEnv, new(bytes.Buffer)); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
	o := parsed(t)
	if o.ttl != memoryTTL || o.freezeAt != "after-check" || o.repeat != 1 {
		t.Errorf("defaults: %+v", o)
	}
	env := func(name string) string { return "env-" + name }
	o, err := parse([]string{"--cassandra", "h1,h2:9043,::1,[::1]:9042", "--user", "me", "--repeat", "2"}, env, new(bytes.Buffer))
	if err != nil || len(o.hosts) != 4 || o.user != "me" || o.password != "env-CASSANDRA_PASSWORD" || o.ttl != cassandraTTL || o.freezeAt != randomPoint {
		t.Errorf("%+v, %v", o, err)
	}
	var out bytes.Buffer
	if _, err := parse([]string{"--help"}, noEnv, &out); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "-cassandra") {
		t.Errorf("help: %v\n%s", err, &out)
	}
}

func TestReplication(t *testing.T) {
	nodes := func(sizes ...int) (list []cassandra.Node) {
		for dc, size := range sizes {
			for range size {
				list = append(list, cassandra.Node{DataCenter: fmt.Sprint("dc", dc)})
			}
		}
		return list
	}
	for _, c := range []struct {
		nodes  []cassandra.Node
		factor int
		want   map[string]int // nil: refused
	}{
		{nodes(1), 0, map[string]int{"dc0": 1}},
		{nodes(5, 2), 0, map[string]int{"dc0": 3, "dc1": 2}},
		{nodes(3), 2, map[string]int{"dc0": 2}},
		{nodes(5), 5, map[string]int{"dc0": 5}},
		{nodes(3, 2), 3, nil},
	} {
		got, err := replication(c.nodes, c.factor)
		if !maps.Equal(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%d nodes, factor %d: %v, %v", len(c.nodes), c.factor, got, err)
		}
	}
}

// The same seed tells the same stories.
func TestSeed(t *testing.T) {
	a := parsed(t, "--repeat", "9", "--seed", "4")
	b := parsed(t, "--repeat", "9", "--seed", "4")
	c := parsed(t, "--repeat", "9", "--seed", "5")
	pa, pb, pc := a.plans(), b.plans(), c.plans()
	same := true
	for i := range pa {
		if pa[i] != pb[i] {
			t.Errorf("repetition %d: %+v and %+v", i, pa[i], pb[i])
		}
		same = same && pa[i] == pc[i]
	}
	if same {
		t.Error("seeds 4 and 5 make the same plans")
	}
}
