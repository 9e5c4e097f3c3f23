// Package kit holds the key to what only this module's own test kit may reach.
package kit

// Key opens methods that exist for package memory's test kit. Nobody outside
// this module can name it, so nobody outside can call them.
type Key struct{}
