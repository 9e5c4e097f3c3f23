package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// openCassandra connects the parent, and makes the schema.
func openCassandra(ctx context.Context, opts options) (*theatre, error) {
	a := accessOf(opts)
	session, err := a.connect(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("%w\n(addresses come from --cassandra; user and password from --user and --password, or CASSANDRA_USER and CASSANDRA_PASSWORD)", err)
	}
	b := &base{access: a, session: session, nursery: newNursery()}
	if err := b.prepare(ctx, opts.replicationFactor); err != nil {
		b.close()
		return nil, err
	}
	return &theatre{
		title: fmt.Sprintf("Cassandra at %s, keyspace %s, workers are processes", strings.Join(a.Hosts, ", "), a.Keyspace),
		stage: func() stage { return &cassandraStage{base: b} },
		close: b.close,
	}, nil
}

// base is what all repetitions share: the parent's own way to the cluster.
type base struct {
	access
	session *gocql.Session
	nursery *nursery
	own     lease.Store
	ledger  view
}

func (b *base) prepare(ctx context.Context, replicationFactor int) (err error) {
	defer func() {
		if errors.Is(err, ownership.ErrInvalid) {
			err = fmt.Errorf("%w\nIf keyspace %s was made for something else, choose another with --keyspace", err, b.Keyspace)
		}
	}()
	if err := b.createSchema(ctx, b.session, replicationFactor); err != nil {
		return err
	}
	if b.own, err = cassandra.NewStore(b.session, b.config()); err != nil {
		return err
	}
	if _, b.ledger, err = openLedger(ctx, b.session, b.access); err != nil {
		return err
	}
	_, err = b.ledger.read(ctx)
	return err
}

// close is for when every child has been reaped.
func (b *base) close() {
	b.nursery.close()
	b.session.Close()
}

// cassandraStage is one repetition.
type cassandraStage struct {
	*base
	mu       sync.Mutex
	children []*child
}

func (s *cassandraStage) store() lease.Store { return s.own }
func (s *cassandraStage) table() view        { return s.ledger }

func (s *cassandraStage) start(ctx context.Context, name string) (actor, error) {
	c, err := newChild(s.nursery, childConfig{access: s.access, Name: name})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.children = append(s.children, c)
	s.mu.Unlock()
	return c, nil
}

func (s *cassandraStage) close() {
	s.mu.Lock()
	children := s.children
	s.children = nil
	s.mu.Unlock()
	for _, c := range children {
		c.kill()
	}
}

// childConfig is the first line on a child's stdin.
type childConfig struct {
	access
	Name   string `json:"name"`
	Relay  string `json:"relay"`
	Secret string `json:"secret"`
}

// exitOrphan is the status of a child whose parent is gone. Nobody reads it.
const exitOrphan = 4

// childMain is a worker in a process of its own. Its parent is at the other end
// of stdin and stdout.
func childMain(name string, work job, stdin io.Reader, stdout, stderr io.Writer) int {
	in := json.NewDecoder(stdin)
	var cfg childConfig
	if err := in.Decode(&cfg); err != nil {
		fmt.Fprintf(stderr, "%s is for the demo's own use: worker %s got no configuration: %v\n", workerFlag, name, err)
		return exitUsage
	}
	var mu sync.Mutex
	out := json.NewEncoder(stdout)
	send := func(e event) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(e) // no reader: SIGPIPE ends this process
	}
	commands := make(chan command)
	go func() {
		for {
			var c command
			if err := in.Decode(&c); err != nil {
				os.Exit(exitOrphan) // at once: without a parent there is nothing in good order to do
			}
			commands <- c
		}
	}()
	if err := work(context.Background(), cfg, commands, send); err != nil {
		send(event{What: evFailed, Error: err.Error()})
		return exitBroken
	}
	return exitOK
}

// job is what a child does until it is told to quit.
type job func(ctx context.Context, cfg childConfig, commands <-chan command, send func(event)) error

func work(ctx context.Context, cfg childConfig, commands <-chan command, send func(event)) error {
	session, err := cfg.connect(ctx, relayDialer{cfg.Relay, cfg.Secret})
	if err != nil {
		return err
	}
	defer session.Close()
	store, err := cassandra.NewStore(session, cfg.config())
	if err != nil {
		return err
	}
	table, _, err := openLedger(ctx, session, cfg.access)
	if err != nil {
		return err
	}
	w := &worker{
		name: cfg.Name, store: store, timing: cfg.Timing, ledger: table, send: send,
		receive: func() (command, bool) { return <-commands, true },
	}
	return w.serve(ctx)
}
