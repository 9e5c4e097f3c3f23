//go:build !linux

package cluster

import "testing"

const jobVariable = "TENURE_CLUSTER_TEST_JOB"

func child(string) int { return 1 }

func nothingLeft(*testing.T, *Cluster) {}
