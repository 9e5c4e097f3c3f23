// Package integration is the root of the module that holds everything that needs real servers. It is a module of its own
// so that a user of the library does not load what only its tests use.
//
// Its tests run with
//
//	go test -p 1 ./...
//
// from this folder: -p 1, because each package starts servers of its own. See package cluster for where the servers come
// from, and for the variables that give others.
package integration
