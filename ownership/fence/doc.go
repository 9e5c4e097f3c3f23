// Package fence is the contract of the resource's side: what a store must do with
// the fencing token that comes along with every write.
//
// A lease makes sure that eventually there is at most one owner. It cannot stop a
// process that slept through its lease (garbage collection, swap, a migrated
// machine) from writing on waking. What stops it is the resource itself, which
// keeps the highest token it has accepted and refuses every lower one.
//
// # The contract
//
//  1. The resource stores the highest token it has accepted. That number never
//     decreases, and the store never expires or deletes it.
//  2. A new owner installs its token first, before it reads anything there: a
//     write of the old owner that lands later would not be in what was read.
//     Installing needs a strictly higher token, or the same one again.
//  3. Check and effect are one atomic step. A check before the write is no fence:
//     the process can sleep between the two.
//  4. The holder of the token may write as often as it likes; a lower token is
//     [Stale], explicitly and for ever, and what it changed is nothing.
//  5. A write that carries an operation id takes effect once. The id is recorded
//     in the same atomic step, and looked up before the token: a redelivery of
//     what has taken effect is a [Duplicate], whoever delivers it.
//  6. An unknown outcome is reported as [Unknown], never as a refusal or a
//     success, and it is settled before the next write is sent.
//  7. All tokens that one place ever sees come from one resource of one
//     authority. Tokens of two resources say nothing about each other.
//
// An error is nil if and only if the verdict is [Accepted] or [Duplicate], so
// code that looks at the error alone is safe.
//
// Package cassandra has a Fence for tables. For a resource of your own, the
// example of this package keeps the contract in a few lines.
package fence
