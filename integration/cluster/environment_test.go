package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestResolve(t *testing.T) {
	cfg, err := Cassandra{}.resolve()
	must(t, err)
	if want := (Cassandra{Version: "5.0.6", Nodes: 3, Paxos: "v2", CommitLogSync: "periodic", HeapMiB: 512}); cfg != want {
		t.Errorf("the zero value means %+v, want %+v", cfg, want)
	}
	wrong := Cassandra{Version: "3.11.4", Nodes: 2, Paxos: "v3", CASTimeout: time.Microsecond, CommitLogSync: "never", HeapMiB: 10}
	_, err = wrong.Start(t.Context())
	if err == nil {
		t.Fatal("started")
	}
	for _, want := range []string{
		`Cassandra.Version is "3.11.4": it must be a release 4.1.x or 5.0.x`, "Cassandra.Nodes is 2: it must be 1 or 3",
		`Cassandra.Paxos is "v3": it must be v1 or v2`, "Cassandra.CASTimeout is 1µs: it must be a whole number of milliseconds",
		`Cassandra.CommitLogSync is "never": it must be periodic or batch`, "Cassandra.HeapMiB is 10: it must be 256 to 8192",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if _, err := (Cassandra{CASTimeout: -time.Second}).resolve(); err == nil {
		t.Error("a negative timeout passed")
	}
}

func TestGivenCassandra(t *testing.T) {
	set := func(addresses, user, password string) {
		t.Setenv(addressesVariable, addresses)
		t.Setenv(userVariable, user)
		t.Setenv(passwordVariable, password)
	}
	set("", "user", "")
	if g, err := givenCassandra(); g != nil || err != nil {
		t.Errorf("no addresses: %v, %v", g, err)
	}
	set("10.0.0.1, db:9043", "", "")
	g, err := givenCassandra()
	must(t, err)
	if got := strings.Join(g.addresses, "|"); got != "10.0.0.1|db:9043" {
		t.Errorf("addresses %s", got)
	}
	set("10.0.0.1,,10.0.0.2", "user", "")
	_, err = givenCassandra()
	if err == nil || !strings.Contains(err.Error(), `TENURE_CASSANDRA is "10.0.0.1,,10.0.0.2"`) || !strings.Contains(err.Error(), "set both TENURE_CASSANDRA_USER and TENURE_CASSANDRA_PASSWORD") {
		t.Errorf("not both faults: %v", err)
	}
	set("10.0.0.1", "", "")
	_, err = Cassandra{Auth: true}.Start(t.Context())
	if !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "TENURE_CASSANDRA_USER") {
		t.Errorf("a login is needed and none given: %v", err)
	}
}

// A server that accepts and says nothing, as a frozen one: the wait ends with ctx all the same.
func TestGivenCassandraIsSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	t.Setenv(addressesVariable, l.Addr().String())
	t.Setenv(userVariable, "")
	t.Setenv(passwordVariable, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 1)) // the client is waiting for the answer from now on
		}
		cancel(errors.New("enough"))
	}()
	_, err = Cassandra{}.Start(ctx)
	if err == nil || !strings.Contains(err.Error(), "TENURE_CASSANDRA="+l.Addr().String()) || !strings.Contains(err.Error(), "enough") {
		t.Errorf("error: %v", err)
	}
}

func TestGivenNodesHaveNoFaults(t *testing.T) {
	c := &Cluster{chosen: "addresses from the environment: a"}
	n := &Node{cluster: c, name: "node 0 (a)", address: "a"}
	c.nodes = []*Node{n}
	if c.CanFault() {
		t.Error("CanFault")
	}
	for verb, err := range map[string]error{"freeze": n.Freeze(), "thaw": n.Thaw(), "kill": n.Kill(), "restart": n.Restart(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "cannot "+verb+" node 0 (a)") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if n.State() != Running || n.PID() != 0 || n.Log(9) != "" || c.Node(0).Address() != "a" {
		t.Error("a given node has something of a process")
	}
	must(t, c.Close())
}

func TestUnderCI(t *testing.T) {
	for value, want := range map[string]bool{"": false, "false": false, "0": false, "true": true, "1": true, "woodpecker": true} {
		t.Setenv("CI", value)
		if underCI() != want {
			t.Errorf("CI=%q: %v", value, !want)
		}
	}
}

// A recorder is a test that notes how it was ended.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}
func (r *recorder) Skip(args ...any) {
	r.ended = "skipped: " + fmt.Sprint(args...)
	runtime.Goexit()
}
func (r *recorder) Fatal(args ...any) {
	r.ended = "failed: " + fmt.Sprint(args...)
	runtime.Goexit()
}

func TestForTestWithoutServers(t *testing.T) {
	t.Setenv(addressesVariable, "10.0.0.1") // given, but without the login that the test wants
	t.Setenv(userVariable, "")
	t.Setenv(passwordVariable, "")
	forTest := func(cfg Cassandra) string {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			cfg.ForTest(r)
		}()
		<-done
		return r.ended
	}
	// A version of its own: what fails to start is remembered for the whole run.
	cfg := Cassandra{Version: "5.0.0", Auth: true}
	for ci, want := range map[string]string{"true": "failed: cluster: no server can be had here", "": "skipped: cluster: no server can be had here"} {
		t.Setenv("CI", ci)
		if got := forTest(cfg); !strings.HasPrefix(got, want) {
			t.Errorf("CI=%q: %s, want %s", ci, got, want)
		}
	}
	t.Setenv("CI", "")
	if got := forTest(Cassandra{Nodes: 7}); !strings.HasPrefix(got, "failed: cluster: Cassandra.Nodes is 7") {
		t.Errorf("a wrong description: %s", got)
	}
	shared.mu.Lock()
	shared.running = false
	shared.mu.Unlock()
	got := forTest(Cassandra{})
	shared.mu.Lock()
	shared.running = true
	shared.mu.Unlock()
	if !strings.HasPrefix(got, "failed: cluster: ForTest needs") {
		t.Errorf("without TestMain: %s", got)
	}
}
