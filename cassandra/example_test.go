package cassandra_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2"
	"github.com/scylladb/gocqlx/v2/qb"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/fence"
)

// A service that owns a shard and writes to its partition, and nowhere twice.
func Example() {
	ctx := context.Background()
	cfg := cassandra.Config{Keyspace: "ownership", Owner: "worker-1"}

	session, err := cassandra.Connect(ctx, gocql.NewCluster("10.0.0.1", "10.0.0.2"), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	own, err := cassandra.New(ctx, session, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer own.Close(context.WithoutCancel(ctx)) // bounded by Timing.Drain
	shards, err := cassandra.NewFence(ctx, session, cassandra.FenceConfig{Keyspace: "app", Table: "shard"})
	if err != nil {
		log.Fatal(err)
	}

	err = ownership.Run(ctx, own, "shard-7", func(ctx context.Context, t *ownership.Tenure) error {
		w, err := shards.TakeOver(ctx, t, 7) // first: from now on no older write lands
		if err != nil {
			return err
		}
		var total int
		q := w.Query(ctx, "SELECT total FROM app.shard WHERE id = ? LIMIT 1", 7)
		if err := q.Scan(&total); err != nil && !errors.Is(err, gocql.ErrNotFound) {
			return err
		}
		_, err = w.Write(ctx, cassandra.CQL("UPDATE app.shard SET total = ? WHERE id = ?", total+1, 7))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The tables are created once, by a user that may.
func ExampleCreateSchema() {
	ctx := context.Background()
	cfg := cassandra.Config{
		Keyspace:    "ownership",
		Replication: map[string]int{"datacenter1": 3}, // creates the keyspace
		Buckets:     16,                               // claims many shards at once
	}
	session, err := cassandra.Connect(ctx, gocql.NewCluster("10.0.0.1"), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	if err := cassandra.CreateSchema(ctx, session, cfg); err != nil {
		log.Fatal(err)
	}
	// A table that is to be fenced gets its columns.
	if err := session.Query(cassandra.AddColumns("app", "shard")).Exec(); err != nil {
		log.Fatal(err)
	}
}

// Check names everything that is wrong with the cluster, with its consequence.
func ExampleCheck() {
	ctx := context.Background()
	cfg := cassandra.Config{Keyspace: "ownership"}
	session, err := cassandra.Connect(ctx, gocql.NewCluster("10.0.0.1"), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	report, err := cassandra.Check(ctx, session, cfg)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(report) // one line each
	if report.Err() != nil {
		log.Fatal("not safe to use")
	}
}

// Queries that gocqlx has bound are taken as they are.
func ExampleBound() {
	write := func(ctx context.Context, session gocqlx.Session, w *cassandra.Writer, row any) error {
		insert := qb.Insert("app.shard").Columns("id", "item", "value").Query(session)
		verdict, err := w.Write(ctx, cassandra.Bound(insert.BindStruct(row)))
		switch {
		case errors.Is(err, fence.ErrStale):
			return err // somebody newer owns it: stop
		case verdict == fence.Unknown: // ctx ended first: ask again, with more time
			_, err = w.Settle(context.WithoutCancel(ctx))
		}
		return err
	}
	_ = write
}

// A user of a configuration of their own lets Configure prepare it.
func ExampleConfigure() {
	cluster := gocql.NewCluster("10.0.0.1")
	cluster.Authenticator = gocql.PasswordAuthenticator{Username: "worker", Password: "secret"}
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy()) // for all other queries
	if err := cassandra.Configure(cluster, cassandra.Config{Keyspace: "ownership"}); err != nil {
		log.Fatal(err)
	}
	session, err := gocqlx.WrapSession(cluster.CreateSession())
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	own, err := cassandra.New(context.Background(), session.Session, cassandra.Config{Keyspace: "ownership", Owner: "worker-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer own.Close(context.Background()) // bounded by Timing.Drain
}

// AddColumns returns CQL; the table needs a clustering column.
func ExampleAddColumns() {
	fmt.Println(cassandra.AddColumns("app", "shard"))
	// Output: ALTER TABLE "app"."shard" ADD (fence bigint STATIC, fence_seq bigint STATIC, fence_batch uuid STATIC)
}
