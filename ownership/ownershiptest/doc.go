// Package ownershiptest is the conformance suite of [ownership.Ownership]. Every
// adapter runs it: the two of this module, and any that somebody else writes.
//
// An adapter that is a [lease.Store] needs [OverStore] and a few lines; anything
// else makes its own [Process] values, and declines what it cannot do. See the
// examples of [Run].
//
// Each test says in its comment which invariant (DESIGN 8.n, or a section) or
// which public report it comes from. The table in reports.go leads from each of
// the reports to its test. Beside what each test looks for, all of them watch
// every transition of every tenure: only legal ones, no two tenures of a resource
// held at once, and no token out of order.
//
// No test relies on a duration: with VirtualTime they run in testing/synctest
// bubbles, and otherwise wait for conditions.
//
// [lease.Store]: https://pkg.go.dev/github.com/tenure-go/tenure/ownership/lease#Store
package ownershiptest
