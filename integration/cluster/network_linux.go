package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Servers of one cluster need the same port on different addresses, so every cluster has a loopback network of its own:
// 127.0.N.1, 127.0.N.2, and so on. N is in this range; a variable for tests, whose servers bind nothing.
var firstNetwork, lastNetwork = 40, 99

// A network is one 127.0.N together with the folder of its servers. Who holds the folder's lock owns both; the kernel
// releases the lock when its process ends, and children do not inherit it.
type network struct {
	prefix string // 127.0.40
	folder string
	lock   *os.File
}

// address is that of node i, counted from 0.
func (n *network) address(i int) string { return n.prefix + "." + strconv.Itoa(i+1) }

// networksFolder holds one folder a network in use.
func networksFolder() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("tenure-cluster-%d", os.Getuid()))
}

// takeNetwork takes the first network, from first to last, whose lock and ports are free, and removes what crashed runs
// have left in root.
func takeNetwork(root string, first, last, nodes int, ports []int) (*network, error) {
	if err := sweep(root); err != nil {
		return nil, err
	}
	var faults []error
	for i := first; i <= last; i++ {
		n := &network{prefix: fmt.Sprintf("127.0.%d", i)}
		n.folder = filepath.Join(root, n.prefix)
		lock, err := lockFolder(n.folder)
		if errors.Is(err, errLocked) {
			faults = append(faults, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		n.lock = lock
		// Only now: to look binds the ports for a moment, in which the owner's server could not.
		if err := n.portsFree(nodes, ports); err != nil {
			faults = append(faults, err)
			if err := n.release(); err != nil {
				return nil, err
			}
			continue
		}
		return n, nil
	}
	return nil, fmt.Errorf("no loopback network from 127.0.%d to 127.0.%d is free: %w", first, last, errors.Join(faults...))
}

func (n *network) portsFree(nodes int, ports []int) error {
	for i := range nodes {
		if err := portsFree(n.address(i), ports); err != nil {
			return err
		}
	}
	return nil
}

// portsFree finds out by binding each port for a moment.
func portsFree(address string, ports []int) error {
	for _, port := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("port %d of %s cannot be used (another server has it?): %w", port, address, err)
		}
		l.Close()
	}
	return nil
}

// release removes the folder and gives the network back. No server of it may be left.
func (n *network) release() error {
	err := os.RemoveAll(n.folder) // before the lock goes: the next owner's folder has the same name
	n.lock.Close()
	_ = os.Remove(filepath.Dir(n.folder)) // succeeds for the last one only
	return err
}

// sweep removes the folders, and kills the servers, of runs that ended without doing so.
func sweep(root string) error {
	folders, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil {
		return err
	}
	for _, f := range folders {
		lock, err := lockFolder(f)
		if errors.Is(err, errLocked) {
			continue // its run lives
		}
		if err != nil {
			return err
		}
		err = killStrays(ownerMark + f + "/")
		err = errors.Join(err, (&network{folder: f, lock: lock}).release())
		if err != nil {
			return fmt.Errorf("clean up after an earlier run: %w", err)
		}
	}
	return nil
}

var errLocked = errors.New("is in use by another process")

// lockFolder creates a folder where there is none and takes its lock, or fails with errLocked. Closing the file unlocks.
func lockFolder(folder string) (*os.File, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Open(folder)
	if errors.Is(err, os.ErrNotExist) { // its owner is just removing it
		return nil, fmt.Errorf("%s %w", folder, errLocked)
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	if err == nil {
		// Its former owner may have removed the folder between the opening and the lock: then this locks nothing.
		var mine, now os.FileInfo
		if mine, err = f.Stat(); err == nil {
			if now, err = os.Stat(folder); err != nil || !os.SameFile(mine, now) {
				err = errLocked
			}
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s %w", folder, err)
	}
	return f, nil
}
