// Package cqlfake is a Cassandra for tests: a server of the native protocol,
// version 4, in the test's own process. Unmodified gocql and gocqlx connect to it,
// in memory or over loopback, and a test says what goes wrong and what time it is.
//
// # What it does not do
//
// It is no evidence that anything is safe. A test against it shows that a program
// sends the statements it should and copes with the answers; only real servers
// show what happens between them. It has
//
//   - no replication: all nodes of a [Cluster] are coordinators of one set of data,
//     and nothing is ever stale, repaired, hinted or lost
//   - no Paxos: conditional statements are carried out one at a time. They do not
//     contend, time out on each other, or leave a round half done, other than by a
//     [Fault]. Ballots do not show in their timestamps as they would
//   - no effect of consistency levels: ONE, QUORUM and SERIAL read the same. None
//     is unavailable because a node is gone
//   - no batch log, no read repair, no compaction, no disk: a closed cluster
//     forgets everything
//   - no permissions: whoever may log in may do everything
//   - no secondary index, view, trigger, function of the user, user-defined type,
//     role or grant; no vector and no custom type; no writing to counters; no JSON,
//     GROUP BY or CAST; no condition on a collection that is not frozen. A
//     statement that it does not know is an error that says so, and never a guess
//   - no versions 3 and 5 of the protocol, no compression, no TLS, no tracing, no
//     warnings, and no events of topology
//   - no limits on the size of batches and mutations, and none of the guardrails
//
// # Use
//
// [Start] makes a cluster for a test, and [Cluster.ClusterConfig] what gocql needs
// to connect to it. In memory all of it works inside a bubble of testing/synctest,
// where TTLs take no time. Make the cluster within the bubble, close sessions before
// it ends, and sleep a minute after that: gocql leaves goroutines that wait to connect.
//
// Every [Node] has a clock, which [Node.Advance] moves, so that two coordinators
// can disagree about what has expired. [Cluster.Inject] makes requests go wrong:
// lost before or after they are carried out, late, answered with a timeout.
// [Cluster.Observe] sees every request.
package cqlfake
