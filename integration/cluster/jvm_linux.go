package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
)

const javaMajor = "17"

// ownerMark begins an argument of every server that names its folder: by it a later run finds the servers of one that
// could not end them.
const ownerMark = "-Dtenure.folder="

// A jvms starts the servers of one cluster as JVM processes.
type jvms struct {
	java, lib string
	network   *network
	nodes     int
	ports     []int // the first one is the clients'
	servers   []*jvm
}

// newJVMs finds Java, fetches the server's jars and takes a network; release gives it back. Without the tools it fails
// with ErrNoServer, and the text names all that is missing.
func newJVMs(ctx context.Context, a artifact, nodes int, ports []int, say func(string, ...any)) (*jvms, error) {
	java, err := findJava(ctx, javaMajor, javaCandidates())
	if cause := context.Cause(ctx); cause != nil {
		return nil, fmt.Errorf("cluster: find Java: %w", cause)
	}
	if _, missing := exec.LookPath("mvn"); missing != nil && !a.cached() {
		err = errors.Join(err, errNoMaven)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w\nInstall Java %s and Maven (Debian 12, Ubuntu: apt-get install openjdk-%[3]s-jre-headless maven), or set %s=host,host to a cluster of yours",
			ErrNoServer, err, javaMajor, addressesVariable)
	}
	lib, err := a.jars(ctx, say)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	n, err := takeNetwork(networksFolder(), firstNetwork, lastNetwork, nodes, ports)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	keep.hold(n.folder)
	return &jvms{java: java, lib: lib, network: n, nodes: nodes, ports: ports}, nil
}

func (m *jvms) release() error {
	for _, s := range m.servers {
		s.close()
	}
	err := m.network.release()
	keep.drop(m.network.folder)
	return err
}

// name is different for every cluster at a time, so that servers which meet by accident do not join.
func (m *jvms) name() string { return fmt.Sprintf("tenure-%s-%d", m.network.prefix, os.Getpid()) }

func (m *jvms) addresses() []string {
	list := make([]string, m.nodes)
	for i := range list {
		list[i] = m.network.address(i)
	}
	return list
}

// String names the nodes: 3 nodes on 127.0.40.1-3.
func (m *jvms) String() string {
	if m.nodes == 1 {
		return "1 node on " + m.network.address(0)
	}
	return fmt.Sprintf("%d nodes on %s-%d", m.nodes, m.network.address(0), m.nodes)
}

// jar returns the one jar whose name begins with name.
func (m *jvms) jar(name string) (string, error) {
	found, _ := filepath.Glob(filepath.Join(m.lib, name+"-*.jar"))
	if len(found) == 0 {
		return "", fmt.Errorf("%s holds no %s-*.jar although it is marked complete: remove %s and start again", m.lib, name, filepath.Dir(m.lib))
	}
	return found[0], nil
}

// folder is that of node i.
func (m *jvms) folder(i int) string { return filepath.Join(m.network.folder, "node-"+strconv.Itoa(i)) }

// server prepares node i, dead, with its files and the arguments of its java.
func (m *jvms) server(i int, files map[string]string, arguments []string) (*jvm, error) {
	s := &jvm{java: m.java, folder: m.folder(i), address: m.network.address(i), ports: m.ports}
	temporary := filepath.Join(s.folder, "tmp")
	s.arguments = append([]string{
		ownerMark + s.folder,
		// Whatever the JVM and its libraries write goes with the folder.
		"-Djava.io.tmpdir=" + temporary, "-Djna.tmpdir=" + temporary, "-XX:-UsePerfData",
	}, arguments...)
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	m.servers = append(m.servers, s)
	return s, nil
}

// A jvm is one server of a jvms.
type jvm struct {
	java, folder, address string
	arguments             []string
	ports                 []int

	mu     sync.Mutex
	p      *process // nil before the first start
	closed bool
}

func (s *jvm) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p
}

func (s *jvm) pid() int {
	if p := s.process(); p != nil {
		return p.pid()
	}
	return 0
}

func (s *jvm) state() State {
	if p := s.process(); p != nil {
		return p.state()
	}
	return Dead
}

var errDead = errors.New("it is dead")

func (s *jvm) freeze() error {
	if s.state() == Dead {
		return errDead
	}
	return s.process().freeze()
}

func (s *jvm) thaw() error {
	if s.state() == Dead {
		return errDead
	}
	return s.process().thaw()
}

func (s *jvm) kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	return nil
}

// end kills and reaps; s.mu is held.
func (s *jvm) end() {
	if s.p != nil && !s.closed {
		s.p.kill()
		keep.forget(s.p)
	}
}

func (s *jvm) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	s.closed = true
}

func (s *jvm) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the cluster is closed")
	}
	if s.p != nil && s.p.state() != Dead {
		return fmt.Errorf("it is %s", s.p.state())
	}
	s.end() // reap one that ended by itself
	if err := portsFree(s.address, s.ports); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.java, s.arguments...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.folder, log, log
	cmd.Env = []string{"LANG=C.UTF-8", "PATH=" + os.Getenv("PATH"), "HOME=" + s.folder} // no JAVA_TOOL_OPTIONS and the like
	p, err := keep.start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.java, err)
	}
	s.p = p
	return nil
}

func (s *jvm) accepts(ctx context.Context) error {
	d := net.Dialer{Timeout: probeLimit}
	for {
		if s.state() == Dead {
			return fmt.Errorf("it ended while starting; the end of its log:\n%s", s.log(logLines))
		}
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(s.address, strconv.Itoa(s.ports[0])))
		if err == nil {
			return conn.Close()
		}
		if cause := sleep(ctx, pause); cause != nil {
			return fmt.Errorf("wait for it to take connections: %w; the end of its log:\n%s", cause, s.log(logLines))
		}
	}
}

func (s *jvm) logFile() string { return filepath.Join(s.folder, "out.log") }

func (s *jvm) log(lines int) string { return tail(s.logFile(), lines) }

// tail returns the last lines of a file, of its last 64 KiB at most; empty when it cannot be read.
func tail(file string, lines int) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 64 << 10
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-most), io.SeekStart)
	}
	text, _ := io.ReadAll(f)
	text = bytes.TrimRight(text, "\n")
	end := len(text)
	for ; lines > 0 && end >= 0; lines-- {
		end = bytes.LastIndexByte(text[:end], '\n')
	}
	return string(text[end+1:])
}
