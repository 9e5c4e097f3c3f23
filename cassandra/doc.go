// Package cassandra keeps ownership in Apache Cassandra, and fences the tables
// that owners write to. Both halves work by lightweight transactions.
//
// # Ownership
//
// [CreateSchema] makes three tables in a keyspace of yours, [New] returns an
// [ownership.Ownership] on them:
//
//	tenure_session    one row a process, under a TTL, renewed by compare-and-set
//	tenure_ownership  one row a resource: who holds it, under which token
//	tenure_meta       what all processes must agree on; who disagrees is refused
//
// A process renews one row, however many resources it holds. A claim checks and
// raises the counter of its bucket in the same step in which it writes the grant,
// so tokens strictly increase, whatever is lost, repeated or late. Package lease
// has the algorithm; what it asks of a store is [lease.Store], which this package
// implements.
//
// Sessions of gocql are opened by [Connect], or by your own code from a
// configuration that went through [Configure]. That matters: the host policy sends
// all requests of a partition through one replica, the same for every process,
// until that one stops answering, and then the next request through another. With
// any other policy requests race each other, and a frozen node can cost tenures.
// A gocqlx session is passed by its Session field.
//
// # Consistency
//
// Under gocql.Serial, the default, a majority of all replicas decides, in all data
// centres: of 3 + 3 replicas 4 must be up. Under gocql.LocalSerial the replicas of
// one named data centre decide, and every process goes there. The choice is made
// once, when the tables are created.
//
// # Time
//
// Cassandra counts TTLs in whole seconds and can drop a row up to a second early,
// and another server's clock decides when. [ownership.Timing] takes both into
// account: Granularity is 1 s here, and Skew must bound the difference between the
// clocks of any two servers. Beyond that bound only the fence protects.
//
// # The fence
//
// A [Fence] guards one table. Its three static columns ([AddColumns]) hold, for
// each partition, the highest token accepted, the number of the last write and its
// id. [Fence.TakeOver] installs a tenure's token; after that, and only then, the
// new owner reads. [Writer.Write] applies statements if the token is still the
// highest: one conditional batch, in one partition. A late write of an old owner
// is refused with a [fence.StaleError].
//
// When the answer to a write is lost, the writer finds out what became of it
// before it sends another: it reads the id back, sends the same batch again, and
// in the end makes sure that it is not applied. Only what nobody can know any
// more, because a newer owner has written since, remains unknown, and is called so.
//
// What the fence cannot see it cannot refuse. Never write to a fenced table past
// it, as a plain write carries a client's clock and can hide accepted writes; never
// TRUNCATE it or delete a partition, for the fence is a part of that. Statements
// that would do so within a write are refused.
//
// # Operation
//
// Cassandra 4.0 or later, better 4.1 or later with paxos_variant v2 on every node;
// 3 replicas or more; NTP. [Check] looks at all that, node by node, and says of
// each finding what follows from it and what to do. The same user may own and
// write: SELECT and MODIFY on the keyspaces, and CREATE for CreateSchema.
//
// Never TRUNCATE tenure_ownership or delete a partition of it, and never write to
// any of the tables by hand: tokens would start again from 1. Fences then refuse
// them, loudly; Config.TokenFloor leads out of that, as after restoring a backup.
//
// # Errors
//
// Bad input, and tables that do not fit, are [ownership.ErrInvalid], all faults at
// once. Errors of the server and the driver are wrapped and say what to do. An
// error that does not prove that nothing was changed is [ownership.ErrUnknown].
package cassandra
