// Package storetest is the conformance suite of [lease.Store]. A store that
// passes it can carry package lease; whoever writes one runs [Run] on it, and
// then package ownershiptest on the whole.
package storetest
