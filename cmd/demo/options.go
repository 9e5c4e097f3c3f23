package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-go/tenure/ownership"
)

// options are the command line.
type options struct {
	hosts             []string // empty: the memory store
	keyspace          string
	user, password    string
	replicationFactor int // 0: as many as there are nodes, at most 3
	unfenced          bool
	json              bool
	repeat            int
	seed              uint64
	freezeAt          string // a point, or random
	ttl               time.Duration

	timing ownership.Timing
}

const (
	randomPoint  = "random"
	memoryTTL    = 2 * time.Second
	cassandraTTL = 5 * time.Second
	maxTTL       = time.Minute
)

const usage = `Usage: demo [options]

A worker is frozen past its lease, another takes over, the first wakes up and
writes late. The table's fence refuses that write; with --unfenced it does not.
Without --cassandra nothing is needed: all happens in this process.

`

// parse reads the command line. The error names every fault; it is flag.ErrHelp
// if help was asked for and printed to out.
func parse(args []string, getenv func(string) string, out io.Writer) (options, error) {
	o := options{}
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	hosts := fs.String("cassandra", "", "`hosts` of a Cassandra cluster, host[:port],…; workers are then real processes, frozen by SIGSTOP")
	fs.StringVar(&o.keyspace, "keyspace", "tenure_demo", "Cassandra keyspace; made if it is not there")
	fs.StringVar(&o.user, "user", getenv("CASSANDRA_USER"), "Cassandra user (default $CASSANDRA_USER)")
	fs.StringVar(&o.password, "password", "", "Cassandra password (default $CASSANDRA_PASSWORD, which other users cannot see)")
	fs.IntVar(&o.replicationFactor, "replication-factor", 0, "of a new keyspace (default 3, or the number of nodes if there are fewer)")
	fs.BoolVar(&o.unfenced, "unfenced", false, "write to a table that checks nothing, and show the damage")
	fs.DurationVar(&o.ttl, "ttl", 0, fmt.Sprintf("of the lease (default %v, %v on Cassandra)", memoryTTL, cassandraTTL))
	fs.StringVar(&o.freezeAt, "freeze-at", "", "where in its write A is frozen: "+pointNames()+
		" (default after-check; random with --repeat or --seed)")
	fs.IntVar(&o.repeat, "repeat", 1, "tell the story `n` times, one line each")
	fs.Uint64Var(&o.seed, "seed", 0, "of the choice of points and pauses (default: another one each time)")
	fs.BoolVar(&o.json, "json", false, "print one JSON object a line: rows, checks, results")

	var faults []error
	for args := args; ; args = fs.Args() {
		err := fs.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, usage)
			fs.SetOutput(out)
			fs.PrintDefaults()
			return o, flag.ErrHelp
		}
		if err != nil {
			faults = append(faults, err) // and on with the rest: all faults at once
			continue
		}
		if fs.NArg() == 0 {
			break
		}
		faults = append(faults, fmt.Errorf("unexpected argument %q; options begin with --", fs.Arg(0)))
		if err := fs.Parse(fs.Args()[1:]); err != nil {
			faults = append(faults, err)
		}
		if fs.NArg() == 0 {
			break
		}
	}
	set := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if o.password == "" {
		o.password = getenv("CASSANDRA_PASSWORD")
	}
	if set["cassandra"] {
		o.hosts = strings.Split(*hosts, ",")
	}
	faults = append(faults, o.validate(set)...)
	o.finish(set)
	return o, errors.Join(faults...)
}

var keyspaceName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,47}$`)

func (o *options) validate(set map[string]bool) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, h := range o.hosts {
		if err := checkHost(h); err != nil {
			fault("--cassandra: %w", err)
		}
	}
	if len(o.hosts) == 0 {
		for _, name := range []string{"keyspace", "user", "password", "replication-factor"} {
			if set[name] {
				fault("--%s is for a cluster; give --cassandra too, or leave it out", name)
			}
		}
	}
	if !keyspaceName.MatchString(o.keyspace) {
		fault("--keyspace is %q: it must be a letter and up to 47 letters, digits and underscores", o.keyspace)
	}
	if o.replicationFactor < 0 || set["replication-factor"] && o.replicationFactor == 0 {
		fault("--replication-factor is %d: it must be at least 1", o.replicationFactor)
	}
	if len(o.hosts) > 0 && o.password != "" && o.user == "" {
		fault("there is a password but no user; set --user or CASSANDRA_USER")
	}
	if o.repeat < 1 {
		fault("--repeat is %d: it must be at least 1", o.repeat)
	}
	if o.freezeAt != "" && o.freezeAt != randomPoint && !slices.Contains(points, point(o.freezeAt)) {
		fault("--freeze-at is %q: it must be one of %s", o.freezeAt, pointNames())
	}
	return append(faults, o.validateTTL(set["ttl"])...)
}

func (o *options) validateTTL(given bool) (faults []error) {
	timing := ownership.Timing{TTL: o.ttl}
	if len(o.hosts) > 0 {
		timing.Granularity = time.Second // Cassandra counts whole seconds
	}
	switch {
	case !given && len(o.hosts) > 0:
		timing.TTL = cassandraTTL
	case !given:
		timing.TTL = memoryTTL
	case o.ttl <= 0 || o.ttl > maxTTL:
		return []error{fmt.Errorf("--ttl is %v: it must be positive and at most %v, for the story waits for it", o.ttl, maxTTL)}
	case len(o.hosts) > 0 && o.ttl%time.Second != 0:
		return []error{fmt.Errorf("--ttl is %v: Cassandra counts whole seconds; round it up", o.ttl)}
	}
	o.ttl = timing.TTL
	o.timing = timing.WithDefaults()
	if err := o.timing.Validate(); err != nil {
		return []error{fmt.Errorf("--ttl is %v: %w", o.ttl, err)}
	}
	return nil
}

// finish chooses what was left open.
func (o *options) finish(set map[string]bool) {
	if o.freezeAt == "" {
		o.freezeAt = string(afterCheck)
		if set["seed"] || o.repeat > 1 {
			o.freezeAt = randomPoint
		}
	}
	if !set["seed"] {
		o.seed = rand.Uint64N(1 << 32) // short enough to type
	}
}

func checkHost(h string) error {
	host, port := h, "9042"
	if strings.Contains(h, ":") && net.ParseIP(h) == nil {
		var err error
		if host, port, err = net.SplitHostPort(h); err != nil {
			return fmt.Errorf("%q is no host or host:port", h)
		}
	}
	n, err := strconv.Atoi(port)
	switch {
	case host == "" || strings.ContainsAny(host, " /\t"):
		return fmt.Errorf("%q is no host name or address", h)
	case err != nil || n < 1 || n > 65535:
		return fmt.Errorf("%q: the port must be from 1 to 65535", h)
	}
	return nil
}

func pointNames() string {
	names := []string{randomPoint}
	for i := len(points) - 1; i >= 0; i-- {
		names = append([]string{string(points[i])}, names...)
	}
	return strings.Join(names, ", ")
}

// plans returns what each repetition does. Random points come in shuffled rounds,
// so that a few repetitions cover them all.
func (o *options) plans() []plan {
	rng := rand.New(rand.NewPCG(o.seed, 0))
	var round []point
	plans := make([]plan, o.repeat)
	for i := range plans {
		p := plan{fenced: !o.unfenced, at: point(o.freezeAt), timing: o.timing}
		if o.freezeAt == randomPoint {
			if len(round) == 0 {
				round = slices.Clone(points)
				rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
			}
			p.at, round = round[0], round[1:]
			// Any moment between two renewals, and any after the takeover.
			p.before = time.Duration(rng.Int64N(int64(o.timing.RenewEvery)))
			p.oversleep = time.Duration(rng.Int64N(int64(o.timing.TTL / 4)))
		}
		plans[i] = p
	}
	return plans
}
