//go:build !linux

package main

import (
	"context"
	"errors"
)

var errNoChildren = errors.New("--cassandra needs Linux: it freezes workers with SIGSTOP and has them end with their parent, whatever becomes of it;" +
	" run it in a container or a virtual machine, or leave --cassandra out")

func openCassandra(context.Context, options) (*theatre, error) { return nil, errNoChildren }

func beChild() {}
