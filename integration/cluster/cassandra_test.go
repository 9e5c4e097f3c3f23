package cluster

import (
	"testing"
)

func TestCassandraThreeNodes(t *testing.T) {
	c := Cassandra{}.ForTest(t)
	t.Log(c.Addresses()); for _, n := range c.Nodes() { t.Log(n.Log(1000)) }
}
