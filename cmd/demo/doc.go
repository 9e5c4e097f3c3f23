// Demo is the story of the late write, live. A worker owns shard-7 and writes to
// a table. It is frozen past its lease; another takes over and writes; the first
// wakes up and goes on with the write that it had begun. With the fence the table
// refuses it. With --unfenced the other's write is lost.
//
//	go run ./cmd/demo                                      needs nothing: all in one process
//	go run ./cmd/demo --cassandra 10.0.0.1,10.0.0.2        real processes, real freezes, real tables
//	go run ./cmd/demo --unfenced                           the damage
//
// # How it is built
//
// The parent directs and checks; it owns nothing. Workers obey: they run the
// library's own lease code and say what they see. Both speak the messages of
// protocol.go: over channels where the workers are goroutines on package memory,
// as JSON lines over stdin and stdout where they are child processes. So there is
// one story (story.go) and one worker (worker.go) for both stages.
//
// The worker is a bad citizen on purpose: it writes whatever its own check of the
// lease says. What is shown is what the table does.
//
// A worker's requests and answers pass a [wire] that can hold them: a gate in
// memory, a TCP relay in the parent for child processes. That is how a write can
// be "in flight" while its sender is frozen, and how it is made sure that nothing
// is sent or received between a worker's waking and its first look at its tenure.
//
// # Exit status
//
//	0    all expectations held
//	1    an expectation broke, a missing damage with --unfenced among them
//	2    bad usage; all faults are named at once
//	3    it could not be played: no server, wrong credentials, another layout
//	130  ended by SIGINT (143: SIGTERM, 129: SIGHUP)
//
// No worker outlives the parent, however that ends: see children_linux.go.
package main
