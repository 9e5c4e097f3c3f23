// Package lease turns any store with compare-and-set, a time to live and a
// linearizable read into an [ownership.Ownership]. It is the algorithm alone:
// the store is an interface, [Store], with three-valued answers, and time is read
// through one seam, so that all of it runs under testing/synctest.
//
// # Sessions and grants
//
// A process has one session: a row under a TTL, which one goroutine renews. Its
// grants say which resources it owns; they have no TTL and are alive exactly as
// long as the session they name. So a renewal is one small request, whether the
// process owns one resource or a hundred thousand.
//
// Resources live in buckets. A bucket has a fence, a counter that is never
// deleted: a claim moves it from F to F+1 and writes its rows in the same atomic
// step, and F+1 is the token. A process has one change in flight for each bucket.
//
// # Takeover
//
// A row that names a session which is gone is not free yet: servers' clocks
// differ, and a renewal that began before the expiry may still be under way. So
// the claimant first writes a death certificate, which no renewal survives, and
// then claims. It costs one write for a dead process, not one for each resource.
//
// # Unknown outcomes
//
// A compare-and-set that times out may have been applied, or may yet be. Each
// such request is settled by reading back: a renewal by its sequence number, a
// claim by the uuid of its attempt, never by owner name. What nobody waits for
// any more is settled in the background: an abandoned claim is brought to release
// or to impossibility, because nobody else cleans up a grant of a living session.
//
// # What it promises
//
// The numbers refer to the invariants that the tests name.
//
//  1. Tokens of one resource strictly increase.
//  2. A resource's own check (package fence) never meets a lower token after a
//     higher one was installed. That half is not in this package.
//  3. A release or renewal of an old tenure never touches a newer one, and a
//     session once declared dead never renews.
//  4. Every unknown outcome resolves to exactly one result.
//  5. A stale owner learns of it within its deadline, with or without a network.
//  6. After Lost there is no renewal under that tenure; a grant left over is
//     removed by its attempt only.
package lease
