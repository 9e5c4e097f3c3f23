// Package memory keeps ownership in this process: for tests, examples, and
// programs of a single node that want the same code path as the others.
//
// [New] makes a whole [lease.Ownership] in one line. [NewStore] makes the store
// alone; several Ownerships on views of one Store ([Store.Client]) are rivals, as
// processes on one cluster would be, and every view takes faults of its own:
// lost requests, lost answers, answers that come late, silence.
//
// [NewControlled] also returns a [Control], with which a test of one's own code
// forces doubt, loss and takeover of a resource at will.
//
// # What it is not
//
// Nothing is kept beyond the process, and nothing outside of it is kept out: it
// arbitrates between goroutines only.
package memory
