package main

import (
	"context"

	"github.com/tenure-go/tenure/ownership/lease"
)

// resource is what the workers fight for.
const resource = "shard-7"

// A stage is where the story plays: what the workers run on and work on. There
// are two, memory and processes on Cassandra.
type stage interface {
	// start brings up a worker that obeys.
	start(ctx context.Context, name string) (actor, error)
	// store and table are the parent's own way there, which no wire holds up.
	store() lease.Store
	table() view
	// close ends every worker that is left, frozen ones too, and waits for it.
	close()
}

// An actor is one worker, as the parent sees it.
type actor interface {
	// describe says what the worker is, for people; empty: nothing worth a line.
	describe() string
	send(command)
	// events is closed when the worker has ended.
	events() <-chan event
	wire() *wire
	// freeze returns when the worker is frozen; until thaw nothing of it moves.
	freeze(ctx context.Context) error
	thaw() error
	// wait waits for a worker that was told to quit; nil: it ended in good order.
	wait(ctx context.Context) error
}
