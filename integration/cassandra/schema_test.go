package cassandra_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/integration/cluster"
	"github.com/tenure-go/tenure/ownership"
)

// refused fails the test unless New refuses cfg, naming all parts.
func refused(t *testing.T, s *gocql.Session, cfg cassandra.Config, parts ...string) {
	t.Helper()
	own, err := cassandra.New(t.Context(), s, cfg)
	if err == nil {
		_ = own.Close(t.Context())
	}
	contains(t, err, parts...)
}

// Many processes create the schema at once, and once more later.
func TestCreateSchemaConcurrently(t *testing.T) {
	cfg := blank(t)
	const processes = 6
	var wg sync.WaitGroup
	errs := make([]error, processes)
	for i := range processes {
		s := connect(t, cfg)
		wg.Go(func() { errs[i] = cassandra.CreateSchema(t.Context(), s, cfg) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s := connect(t, cfg)
	if err := cassandra.CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	if err := cassandra.Migrate(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	own, err := cassandra.New(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	tenure, err := own.Acquire(t.Context(), "it works")
	if err != nil || tenure.Token() != 1 {
		t.Fatalf("%v, token %v", err, tenure.Token())
	}
	if err := errors.Join(tenure.Release(t.Context()), own.Close(t.Context())); err != nil {
		t.Fatal(err)
	}

	t.Run("who disagrees is refused", func(t *testing.T) {
		other := cfg
		other.Buckets = 8
		refused(t, s, other, "Buckets", "it is 8; it must be 0", "configure every process alike")
		other.Serial, other.DataCenter = gocql.LocalSerial, dataCenter
		pinned := connect(t, other)
		refused(t, pinned, other, "Buckets", "it is LOCAL_SERIAL; it must be SERIAL", "DataCenter")
		if err := cassandra.CreateSchema(t.Context(), pinned, other); err == nil {
			t.Error("CreateSchema of another agreement succeeded")
		}
	})
	t.Run("a foreign session cannot do LOCAL_SERIAL", func(t *testing.T) {
		other := cfg
		other.Serial, other.DataCenter = gocql.LocalSerial, dataCenter
		foreign, err := plain(server().ForTest(t)).CreateSession()
		if err != nil {
			t.Fatal(err)
		}
		defer foreign.Close()
		refused(t, foreign, other, "it was not opened through Connect")
		refused(t, s, other, `it was configured for data centre ""`)
	})
	t.Run("formats", func(t *testing.T) {
		format := func(n int) {
			if err := s.Query(fmt.Sprintf("UPDATE %s.tenure_meta SET format = ? WHERE id = 'tenure' IF EXISTS", cfg.Keyspace), n).Exec(); err != nil {
				t.Fatal(err)
			}
		}
		format(2)
		refused(t, s, cfg, "format of the tables", "it is 2", "update this process")
		contains(t, cassandra.Migrate(t.Context(), s, cfg), "at most 1")
		format(0)
		refused(t, s, cfg, "it is 0", "call Migrate")
		contains(t, cassandra.Migrate(t.Context(), s, cfg), "there is none yet")
		format(1)
	})
	t.Run("all faults of the tables at once", func(t *testing.T) {
		for _, cql := range []string{
			"ALTER TABLE %s.tenure_ownership WITH default_time_to_live = 60",
			"ALTER TABLE %s.tenure_ownership DROP attempt",
			"ALTER TABLE %s.tenure_session RENAME id TO ident",
			"DROP TABLE %s.tenure_meta",
		} {
			if err := s.Query(fmt.Sprintf(cql, cfg.Keyspace)).Exec(); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, s, cfg, "default_time_to_live is 60", "column attempt is missing", "column id is missing", "tenure_meta: it does not exist", "run CreateSchema")
	})
}

// A lost table of tokens is not made again unawares.
func TestCreateSchemaKeepsTokens(t *testing.T) {
	cfg := blank(t)
	s := connect(t, cfg)
	if err := cassandra.CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	if err := s.Query("DROP TABLE " + cfg.Keyspace + ".tenure_ownership").Exec(); err != nil {
		t.Fatal(err)
	}
	contains(t, cassandra.CreateSchema(t.Context(), s, cfg), "tenure_ownership: it does not exist, though the keyspace was set up before", "set TokenFloor")
	cfg.TokenFloor = 1000
	if err := cassandra.CreateSchema(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	own, err := cassandra.New(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	tenure, err := own.Acquire(t.Context(), "after the loss")
	if err != nil || tenure.Token() <= 1000 {
		t.Fatalf("%v, token %v; want one above 1000", err, tenure.Token())
	}
	if err := errors.Join(tenure.Release(t.Context()), own.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestNewOnNothing(t *testing.T) {
	cfg := blank(t)
	s := connect(t, cfg)
	many := cfg
	many.Replication = map[string]int{dataCenter: len(server().ForTest(t).Addresses()) + 1}
	contains(t, cassandra.CreateSchema(t.Context(), s, many), "Replication is", "the number of nodes there")
	refused(t, s, cfg, "keyspace "+cfg.Keyspace+": it does not exist", "run CreateSchema with Replication")
	without := cfg
	without.Replication = nil
	contains(t, cassandra.CreateSchema(t.Context(), s, without), "keyspace "+cfg.Keyspace+" is missing", "set Replication")
	single := cfg
	single.Replication, single.AllowSingleReplica = map[string]int{dataCenter: 1}, false
	contains(t, cassandra.CreateSchema(t.Context(), s, single), "it has one replica", "AllowSingleReplica")
	refused(t, s, single, "it does not exist") // nothing was half done
	single.AllowSingleReplica = true
	if err := cassandra.CreateSchema(t.Context(), s, single); err != nil {
		t.Fatal(err)
	}
	single.AllowSingleReplica = false
	refused(t, s, single, "it has one replica", "AllowSingleReplica")
	s.Close()
	refused(t, s, cfg, "the session is closed", "keep it open")
}

func TestConnectErrors(t *testing.T) {
	server().ForTest(t)
	cfg := cassandra.Config{Keyspace: "nobody_is_here", Owner: "tester"}
	cl := gocql.NewCluster("127.0.99.254")
	cl.ConnectTimeout = time.Second
	_, err := cassandra.Connect(t.Context(), cl, cfg)
	contains(t, err, "127.0.99.254", "no node answers", "check that Cassandra is up")

	missing := plain(server().ForTest(t))
	missing.Keyspace = "nobody_is_here"
	_, err = cassandra.Connect(t.Context(), missing, cfg)
	contains(t, err, "check that the keyspace exists")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cassandra.Connect(ctx, plain(server().ForTest(t)), cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the end of the context", err)
	}
}

// Logins and permissions: what is missing is named, with what to grant.
func TestPermissions(t *testing.T) {
	secured := cluster.Cassandra{Version: server().Version, Paxos: server().Paxos, Nodes: 1, Auth: true}
	c := secured.ForTest(t)
	cfg := cassandra.Config{
		Keyspace: fresh("secured"), Owner: "tester", Replication: map[string]int{dataCenter: 1}, AllowSingleReplica: true,
	}
	login := func(user, password string) (*gocql.Session, error) {
		cl := plain(c)
		cl.Authenticator = gocql.PasswordAuthenticator{Username: user, Password: password}
		s, err := cassandra.Connect(t.Context(), cl, cfg)
		if err == nil {
			t.Cleanup(s.Close)
		}
		return s, err
	}
	_, err := login("cassandra", "wrong")
	contains(t, err, "the login failed", "check the user and password")

	user, password := c.Credentials()
	super, err := login(user, password)
	if err != nil {
		t.Fatal(err)
	}
	if err := cassandra.CreateSchema(t.Context(), super, cfg); err != nil {
		t.Fatal(err)
	}
	worker := fresh("worker")
	grant := func(cql string) {
		if err := super.Query(cql).Exec(); err != nil {
			t.Fatal(err)
		}
	}
	grant("CREATE ROLE " + worker + " WITH PASSWORD = 'secret' AND LOGIN = true")
	s, err := login(worker, "secret")
	if err != nil {
		t.Fatal(err)
	}
	refused(t, s, cfg, "permission denied", "SELECT", "grant")
	grant("GRANT SELECT ON KEYSPACE " + cfg.Keyspace + " TO " + worker)
	own, err := cassandra.New(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = own.TryAcquire(ctx, "forbidden")
	contains(t, err, "permission denied", "MODIFY")
	if errors.Is(err, ownership.ErrUnknown) {
		t.Errorf("%v: what the server refuses is not unknown", err)
	}
	if err := own.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	grant("GRANT MODIFY ON KEYSPACE " + cfg.Keyspace + " TO " + worker)
	own, err = cassandra.New(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	tenure, err := own.Acquire(t.Context(), "permitted")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tenure.Release(t.Context()), own.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	other := cfg
	other.Keyspace = fresh("forbidden")
	contains(t, cassandra.CreateSchema(t.Context(), s, other), "permission denied", "CREATE")
	if strings.Contains(fmt.Sprint(err), "secret") {
		t.Error("an error shows the password")
	}
}
