package cqlfake_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra/cqlfake"
)

// reserve is the code under test: it takes a seat if nobody has it.
func reserve(ctx context.Context, s *gocql.Session, seat, name string) (bool, error) {
	return s.Query("INSERT INTO theatre.seats (seat, name) VALUES (?, ?) IF NOT EXISTS USING TTL 600", seat, name).
		WithContext(ctx).MapScanCAS(map[string]any{})
}

// A test of one's own; in a test, [cqlfake.Start] closes the cluster at its end.
func Example() {
	cluster, err := cqlfake.New(cqlfake.Options{Nodes: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	session, err := cluster.ClusterConfig().CreateSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for _, text := range []string{
		"CREATE KEYSPACE theatre WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}",
		"CREATE TABLE theatre.seats (seat text PRIMARY KEY, name text)",
	} {
		if err := session.Query(text).Exec(); err != nil {
			log.Fatal(err)
		}
	}

	ctx := context.Background()
	fmt.Println(reserve(ctx, session, "4A", "ada"))
	fmt.Println(reserve(ctx, session, "4A", "bob"))
	cluster.Advance(10 * time.Minute) // the reservation lapses
	fmt.Println(reserve(ctx, session, "4A", "bob"))
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
}

// The answer is lost after the statement was carried out: what a program does not
// know, and must find out.
func ExampleCluster_Inject() {
	cluster, err := cqlfake.New(cqlfake.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	session, err := cluster.ClusterConfig().CreateSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for _, text := range []string{
		"CREATE KEYSPACE theatre WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
		"CREATE TABLE theatre.seats (seat text PRIMARY KEY, name text)",
	} {
		if err := session.Query(text).Exec(); err != nil {
			log.Fatal(err)
		}
	}

	fault := cluster.Inject(cqlfake.Fault{Table: "theatre.seats", If: cqlfake.Request.Conditional, Answer: cqlfake.Timeout, Apply: true})
	_, err = reserve(context.Background(), session, "4A", "ada")
	var timeout *gocql.RequestErrWriteTimeout
	fmt.Println(errors.As(err, &timeout), timeout.WriteType, fault.Hits())

	var name string
	err = session.Query("SELECT name FROM theatre.seats WHERE seat = '4A'").Consistency(gocql.Consistency(gocql.Serial)).Scan(&name)
	fmt.Println(name, err)
	// Output:
	// true CAS 1
	// ada <nil>
}
