// Package cluster gives tests real clusters, and lets them freeze, thaw, kill and restart single nodes.
//
// # In a test
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }
//
//	func TestTakeover(t *testing.T) {
//		c := cluster.Cassandra{}.ForTest(t) // three nodes of 5.0.6, Paxos v2
//		config := gocql.NewCluster(c.Addresses()...)
//		...
//		if c.CanFault() {
//			err := c.Node(0).Freeze()
//			...
//			err = c.Heal(t.Context())
//		}
//	}
//
// [Run] is needed: it ends the clusters. The first test that asks for a description ([Cassandra]) starts its cluster; all
// later ones of the same test process share it. ForTest hands it over whole, whatever the test before did to it. So tests
// keep their data apart by keyspace, and none runs in parallel to one that faults nodes. [Cassandra.Start] gives a cluster
// of one's own, to be closed by the caller.
//
// With goleak: what this package runs is one goroutine from the first cluster to the last Close, however many nodes there
// are. A check in one test begins with goleak.IgnoreCurrent() after ForTest; a check of the whole process comes after Run.
//
// # Where the servers come from
//
//  1. TENURE_CASSANDRA, addresses with one comma between two, names a cluster that is there. It is taken as it is, whatever
//     the test describes, and left as it is: nodes cannot be faulted. TENURE_CASSANDRA_USER and TENURE_CASSANDRA_PASSWORD
//     log in; a test that asks for Auth needs them.
//  2. Otherwise JVM processes are started, on Linux. They need Java 17 (JAVA_HOME, PATH or /usr/lib/jvm) and, the first
//     time, Maven, which fetches the server's jars into the user's cache folder (tenure-servers/cassandra-all-5.0.6). Each
//     cluster takes a free loopback network from 127.0.40 to 127.0.99, node i on address i+1 and the servers' usual ports.
//  3. Otherwise a test fails where CI is set, and is skipped elsewhere; either way it says what to install or set.
//
// [Cluster.Chosen] says which it was; ForTest logs it.
//
// # What is left behind
//
// Nothing, after Close or Run, and after SIGINT, SIGTERM or SIGHUP. When the test process is killed or exits without
// either, its servers die with it, frozen ones too; their data (a folder a network under tenure-cluster-UID in the
// temporary folder) is removed by the next start. Locks are held by the kernel, so a crash leaves none.
package cluster
