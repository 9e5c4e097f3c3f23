package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// launch starts JVM processes.
func (cfg Cassandra) launch(ctx context.Context, say func(string, ...any)) (*Cluster, error) {
	machine, err := newJVMs(ctx, artifact{"org.apache.cassandra", "cassandra-all", cfg.Version}, cfg.Nodes, []int{9042, 7000}, say)
	if err != nil {
		return nil, err
	}
	a := access{name: machine.name(), nodes: cfg.Nodes}
	if cfg.Auth {
		a.user, a.password = "cassandra", "cassandra"
	}
	c := &Cluster{
		chosen: fmt.Sprintf("JVM processes, Cassandra %s, %s", cfg.Version, machine),
		user:   a.user, password: a.password, healthy: a.healthy, release: machine.release,
	}
	say("starting %s", c.chosen)
	ctx, cancel := limit(ctx)
	defer cancel()
	if err := cfg.startNodes(ctx, c, machine, say); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: start Cassandra %s: %w", cfg.Version, err), c.Close())
	}
	if cfg.Auth && cfg.Nodes > 1 {
		err := a.replicateLogins(ctx, c.nodes[0].address)
		if err == nil {
			err = c.settle(ctx)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cluster: start Cassandra %s: %w", cfg.Version, err), c.Close())
		}
	}
	say("ready")
	return c, nil
}

// startNodes adds the nodes to c and waits until they are whole.
func (cfg Cassandra) startNodes(ctx context.Context, c *Cluster, machine *jvms, say func(string, ...any)) error {
	jamm, err := machine.jar("jamm")
	if err != nil {
		return err
	}
	addresses := machine.addresses()
	for i, address := range addresses {
		folder := machine.folder(i)
		s, err := machine.server(i, cfg.files(machine.name(), addresses, i, folder), cfg.arguments(folder, machine.lib, jamm))
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, &Node{cluster: c, name: fmt.Sprintf("node %d (%s)", i, address), address: address, server: s})
	}
	for _, n := range c.nodes {
		if err := n.server.start(); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
	}
	return c.settle(ctx)
}

// files returns what node i reads, by name within its folder. Sizes are small, for three nodes on one small machine.
func (cfg Cassandra) files(name string, addresses []string, i int, folder string) map[string]string {
	var y strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&y, format+"\n", args...) }
	line("cluster_name: %s", name)
	line("num_tokens: 1")
	line("initial_token: %q", tokens[i])
	line("auto_bootstrap: false") // nothing to stream: all nodes are new, or have their data
	line("listen_address: %s", addresses[i])
	line("rpc_address: %s", addresses[i])
	line("native_transport_port: 9042")
	line("storage_port: 7000")
	// Every node is a seed: all start at once, and each can be restarted whichever others are down.
	line("seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: %q}]}]", strings.Join(addresses, ","))
	line("endpoint_snitch: SimpleSnitch")
	line("partitioner: org.apache.cassandra.dht.Murmur3Partitioner")
	line("commitlog_sync: %s", cfg.CommitLogSync)
	if cfg.CommitLogSync == "periodic" {
		line("commitlog_sync_period: 10s")
	}
	line("data_file_directories: [%q]", filepath.Join(folder, "data"))
	line("commitlog_directory: %q", filepath.Join(folder, "commitlog"))
	line("hints_directory: %q", filepath.Join(folder, "hints"))
	line("saved_caches_directory: %q", filepath.Join(folder, "saved"))
	line("cdc_raw_directory: %q", filepath.Join(folder, "cdc"))
	line("paxos_variant: %s", cfg.Paxos)
	if cfg.CASTimeout > 0 {
		line("cas_contention_timeout: %dms", cfg.CASTimeout.Milliseconds())
	}
	line("memtable_heap_space: 64MiB")
	line("memtable_offheap_space: 64MiB")
	line("commitlog_segment_size: 8MiB")
	line("commitlog_total_space: 256MiB")
	line("concurrent_reads: 8")
	line("concurrent_writes: 8")
	line("concurrent_compactors: 1")
	line("file_cache_size: 32MiB")
	line("key_cache_size: 4MiB")
	line("counter_cache_size: 0MiB")
	line("networking_cache_size: 16MiB")
	line("block_for_peers_timeout_in_secs: -1") // a restarted node would wait ten seconds for dead ones
	line("auto_snapshot: false")                // a dropped table of a test is of no use to anyone
	if cfg.Auth {
		line("authenticator: PasswordAuthenticator")
		line("authorizer: CassandraAuthorizer")
		line("role_manager: CassandraRoleManager")
		line("roles_validity: 0ms")
		line("permissions_validity: 0ms")
		line("credentials_validity: 0ms")
	} else {
		line("authenticator: AllowAllAuthenticator")
	}
	return map[string]string{
		"cassandra.yaml": y.String(),
		// Without it logback prints every debug line, which is a good part of the start time.
		"logback.xml": `<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d{HH:mm:ss.SSS} %-5level [%thread] %logger{0} %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="out"/></root></configuration>
`,
	}
}

// Cassandra and its libraries reach into these packages of the JDK, which Java 17 closes.
const (
	exports = `java.base/jdk.internal.misc java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry
java.rmi/sun.rmi.server java.sql/java.sql java.base/java.lang.ref jdk.unsupported/sun.misc
jdk.compiler/com.sun.tools.javac.file jdk.attach/sun.tools.attach`
	opens = `java.base/java.lang.module java.base/jdk.internal.loader java.base/jdk.internal.ref java.base/jdk.internal.reflect
java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.util.jar
jdk.management/com.sun.management.internal java.base/sun.nio.ch java.base/java.io java.base/java.lang.reflect
jdk.compiler/com.sun.tools.javac java.base/java.lang java.base/java.util java.base/java.util.concurrent
java.base/java.util.concurrent.atomic java.base/java.util.concurrent.locks java.base/java.util.regex java.base/java.nio
java.base/java.net java.base/java.math java.base/java.time java.base/java.security java.base/sun.nio.fs`
)

// arguments returns what java is started with; lib is the folder of the jars, jamm the jar that measures objects.
func (cfg Cassandra) arguments(folder, lib, jamm string) []string {
	args := []string{
		// A short-lived server on a shared machine: the quick compiler and the collector without threads of its own.
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k",
		fmt.Sprintf("-Xms%dm", cfg.HeapMiB), fmt.Sprintf("-Xmx%dm", cfg.HeapMiB), "-XX:+ExitOnOutOfMemoryError",
		"-Djdk.attach.allowAttachSelf=true", "-Dio.netty.tryReflectionSetAccessible=true",
	}
	for e := range strings.FieldsSeq(exports) {
		args = append(args, "--add-exports="+e+"=ALL-UNNAMED")
	}
	for e := range strings.FieldsSeq(opens) {
		args = append(args, "--add-opens="+e+"=ALL-UNNAMED")
	}
	if cfg.Auth {
		// The first login is created after this time, and tried again every so often until enough nodes are up.
		args = append(args, "-Dcassandra.superuser_setup_delay_ms=500")
	}
	return append(args,
		"-javaagent:"+jamm,
		"-Dlogback.configurationFile="+filepath.Join(folder, "logback.xml"),
		"-Dcassandra.config=file://"+filepath.Join(folder, "cassandra.yaml"),
		"-Dcassandra.storagedir="+folder,
		"-Dcassandra.logdir="+filepath.Join(folder, "log"),
		"-Dcassandra-foreground=yes",
		// Half of the start time otherwise: waiting twice this for seeds that start as well, and measuring that size.
		"-Dcassandra.ring_delay_ms=500",
		"-Dcassandra.memtable.row_overhead_size=180",
		"-Dcassandra.skip_wait_for_gossip_to_settle=0",
		"-cp", filepath.Join(lib, "*"), "org.apache.cassandra.service.CassandraDaemon")
}
