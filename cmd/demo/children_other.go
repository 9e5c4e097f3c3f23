//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

var errNoChildren = errors.New("--cassandra needs Linux: it freezes workers with SIGSTOP and has them end with their parent, whatever becomes of it;" +
	" run it in a container or a virtual machine, or leave --cassandra out")

func openCassandra(context.Context, options) (*theatre, error) { return nil, errNoChildren }

func childName([]string) (string, bool) { return "", false }

func childMain(_ string, _ io.Reader, _, errOut io.Writer) int {
	fmt.Fprintln(errOut, errNoChildren)
	return exitUnable
}
