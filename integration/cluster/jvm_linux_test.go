package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// script writes an executable shell script.
func script(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
}

const javaIs17 = `if [ "$1" = -version ]; then echo 'openjdk version "17.0.15" 2025-04-15' >&2; exit; fi
`

// fakes makes this process find java and mvn that do as told, and an empty cache of jars. It returns the cache.
func fakes(t *testing.T, java, mvn string) (cache string) {
	t.Helper()
	top := t.TempDir()
	script(t, filepath.Join(top, "jdk/bin/java"), java)
	if mvn != "" {
		script(t, filepath.Join(top, "bin/mvn"), mvn)
	}
	sh, err := exec.LookPath("sleep")
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(top, "bin"), 0o755))
	for _, tool := range []string{"sleep", "mkdir", "touch", "sh"} {
		must(t, os.Symlink(filepath.Join(filepath.Dir(sh), tool), filepath.Join(top, "bin", tool)))
	}
	t.Setenv(addressesVariable, "")
	t.Setenv("JAVA_HOME", filepath.Join(top, "jdk"))
	t.Setenv("PATH", filepath.Join(top, "bin"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(top, "cache"))
	return filepath.Join(top, "cache", "tenure-servers", "cassandra-all-5.0.6")
}

// mavenWorks puts two jars where it is told, and a line into $CALLS.
const mavenWorks = `echo called >> "$CALLS"
for a; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done
mkdir -p "$out" && touch "$out/jamm-0.4.0.jar" "$out/cassandra-all-5.0.6.jar"
`

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error lacks %q:\n%v", p, err)
		}
	}
}

func TestFindJava(t *testing.T) {
	top := t.TempDir()
	java := func(name, text string) string {
		path := filepath.Join(top, name)
		script(t, path, text)
		return path
	}
	java8 := java("8", `echo 'java version "1.8.0_402"' >&2`)
	java21 := java("21", `echo 'openjdk version "21.0.1" 2023-10-17' >&2`)
	java17 := java("17", javaIs17)
	mute := java("mute", "")
	broken := java("broken", "exit 1")
	if got, err := findJava(t.Context(), "17", []string{java8, broken, java21, java17}); err != nil || got != java17 {
		t.Errorf("found %q, %v, want %q", got, err, java17)
	}
	_, err := findJava(t.Context(), "17", []string{java8, java21, mute, broken, filepath.Join(top, "none")})
	wantError(t, err, "no Java 17 found", java8+" is version 8", java21+" is version 21", mute+" does not tell its version",
		broken+" does not run: exit status 1", "none does not run")
	_, err = findJava(t.Context(), "17", nil)
	wantError(t, err, "no Java 17 found", "no java in JAVA_HOME, PATH or /usr/lib/jvm")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = findJava(ctx, "17", []string{java17})
	wantError(t, err, "enough")
}

func TestNoMaven(t *testing.T) {
	cache := fakes(t, javaIs17, "")
	_, err := Cassandra{}.Start(t.Context())
	wantError(t, err, "no Maven (mvn) found", "apt-get install openjdk-17-jre-headless maven", "TENURE_CASSANDRA=host,host")
	if !errors.Is(err, ErrNoServer) {
		t.Errorf("not ErrNoServer: %v", err)
	}
	if _, err := os.Stat(cache); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was created (%v)", cache, err)
	}
}

func TestMavenFails(t *testing.T) {
	cache := fakes(t, javaIs17, "echo no such artifact; exit 7")
	_, err := Cassandra{}.Start(t.Context())
	wantError(t, err, "download cassandra-all 5.0.6 with Maven", "exit status 7", "no such artifact")
	if errors.Is(err, ErrNoServer) {
		t.Error("a failed download must not be skipped as ErrNoServer")
	}
	if _, err := os.Stat(filepath.Join(cache, "complete")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cache is marked complete (%v)", err)
	}
}

func TestMavenIsCancelled(t *testing.T) {
	cache := fakes(t, javaIs17, `for a; do case $a in -DoutputDirectory=*) mkdir -p "${a#*=}";; esac; done; sleep 1000`)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		_, err := Cassandra{}.Start(ctx)
		done <- err
	}()
	part := filepath.Join(cache, "lib.part")
	eventually(t, "Maven began", func() bool { _, err := os.Stat(part); return err == nil })
	cancel(errors.New("enough"))
	wantError(t, <-done, "download cassandra-all 5.0.6 with Maven", "enough")
	if _, err := os.Stat(part); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", part, err)
	}
}

func TestJarsAreDownloadedOnce(t *testing.T) {
	cache := fakes(t, javaIs17, mavenWorks)
	calls := filepath.Join(t.TempDir(), "calls")
	t.Setenv("CALLS", calls)
	// A run that was interrupted left half a jar.
	must(t, os.MkdirAll(filepath.Join(cache, "lib"), 0o755))
	must(t, os.WriteFile(filepath.Join(cache, "lib", "half.jar"), nil, 0o644))
	a := artifact{"org.apache.cassandra", "cassandra-all", "5.0.6"}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			lib, err := a.jars(t.Context(), t.Logf)
			if err != nil || lib != filepath.Join(cache, "lib") {
				t.Errorf("jars in %q, %v", lib, err)
			}
			if _, err := os.Stat(filepath.Join(lib, "jamm-0.4.0.jar")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	text, err := os.ReadFile(calls)
	must(t, err)
	if n := strings.Count(string(text), "called"); n != 1 {
		t.Errorf("Maven ran %d times", n)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "lib", "half.jar")); left != nil {
		t.Error("the half jar of an interrupted run is still there")
	}
	t.Setenv("PATH", "/nowhere") // what is complete needs no Maven
	_, err = a.jars(t.Context(), t.Logf)
	must(t, err)
}

func TestJarsAreIncomplete(t *testing.T) {
	cache := fakes(t, javaIs17, "")
	must(t, os.MkdirAll(cache, 0o755))
	must(t, os.WriteFile(filepath.Join(cache, "complete"), nil, 0o644))
	_, err := Cassandra{}.Start(t.Context())
	wantError(t, err, "holds no jamm-*.jar although it is marked complete", "remove "+cache)
}

// withServer is fakes with the jars there and java, which is the server, doing as told.
func withServer(t *testing.T, server string) {
	t.Helper()
	cache := fakes(t, javaIs17+server, "")
	must(t, os.MkdirAll(filepath.Join(cache, "lib"), 0o755))
	must(t, os.WriteFile(filepath.Join(cache, "complete"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(cache, "lib", "jamm-0.4.0.jar"), nil, 0o644))
	// Apart from real servers: looking whether a port is free takes it for a moment.
	t.Setenv("TMPDIR", t.TempDir())
	was := [...]int{firstNetwork, lastNetwork}
	firstNetwork, lastNetwork = 230, 239
	t.Cleanup(func() { firstNetwork, lastNetwork = was[0], was[1] })
}

func noFolders(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(networksFolder()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", networksFolder(), err)
	}
}

func TestServerEndsWhileStarting(t *testing.T) {
	withServer(t, "echo first; echo out of luck >&2; exit 3")
	_, err := Cassandra{}.Start(t.Context())
	wantError(t, err, "start Cassandra 5.0.6: node 0 (127.0.", "ended while starting; the end of its log:", "first\nout of luck")
	noFolders(t)
}

func TestStartIsCancelled(t *testing.T) {
	for _, server := range []string{
		"echo booting; echo $$ > pid; sleep 1000",
		"echo booting; echo $$ > pid; kill -STOP $$",
	} {
		withServer(t, server)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			_, err := Cassandra{Nodes: 1}.Start(ctx)
			done <- err
		}()
		var pid []byte
		eventually(t, "the server runs", func() bool {
			files, _ := filepath.Glob(filepath.Join(networksFolder(), "*/node-0/pid"))
			for _, f := range files {
				pid, _ = os.ReadFile(f)
			}
			return len(pid) > 0
		})
		cancel(errors.New("enough"))
		wantError(t, <-done, "node 0 (127.0.", "wait for it to take connections: enough; the end of its log:\nbooting")
		if s := stateOf("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); s != Dead {
			t.Errorf("the server is %s", s)
		}
		noFolders(t)
	}
}

func TestPortIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.240.2:0")
	must(t, err)
	defer l.Close()
	_, text, _ := net.SplitHostPort(l.Addr().String())
	port, err := strconv.Atoi(text)
	must(t, err)
	root := filepath.Join(t.TempDir(), "networks")

	_, err = takeNetwork(root, 240, 240, 3, []int{port})
	wantError(t, err, "no loopback network from 127.0.240 to 127.0.240 is free", "port "+text+" of 127.0.240.2 cannot be used", "address already in use")
	n, err := takeNetwork(root, 240, 241, 3, []int{port})
	must(t, err)
	if n.prefix != "127.0.241" {
		t.Errorf("took %s, whose port is in use", n.prefix)
	}
	must(t, n.release())

	s := &jvm{address: "127.0.240.2", ports: []int{port}}
	wantError(t, s.start(), "port "+text+" of 127.0.240.2 cannot be used")
}

func TestNetworksAreTakenOnce(t *testing.T) {
	root := filepath.Join(t.TempDir(), "networks")
	const takers = 8
	taken := make(chan *network, takers)
	var group sync.WaitGroup
	for range takers {
		group.Go(func() {
			n, err := takeNetwork(root, 240, 247, 3, nil)
			if err != nil {
				t.Error(err)
				return
			}
			taken <- n
		})
	}
	group.Wait()
	close(taken)
	seen := map[string]bool{}
	for n := range taken {
		if seen[n.prefix] {
			t.Errorf("%s was taken twice", n.prefix)
		}
		seen[n.prefix] = true
		t.Cleanup(func() { must(t, n.release()) })
	}
	_, err := takeNetwork(root, 240, 247, 3, nil)
	if len(seen) == takers {
		wantError(t, err, "127.0.243 is in use by another process")
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if got := tail(file, 3); got != "" {
		t.Errorf("of no file: %q", got)
	}
	for text, want := range map[string]string{"": "", "a": "a", "a\nb\n": "a\nb", "a\nb\nc\n": "b\nc", strings.Repeat("x", 70<<10) + "\ny\n": strings.Repeat("x", 64<<10-3) + "\ny"} {
		must(t, os.WriteFile(file, []byte(text), 0o644))
		if got := tail(file, 2); got != want {
			t.Errorf("of %d bytes: %d bytes, want %d", len(text), len(got), len(want))
		}
	}
}
