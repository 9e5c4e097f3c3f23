package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v2/qb"

	"github.com/tenure-go/tenure/ownership"
)

// FormatVersion is the version of the tables that this package reads and writes.
// Tables of a newer one are refused; those of an older one are brought up by
// [Migrate].
const FormatVersion = 1

// metaID is the key of the one row of the meta table.
const metaID = "tenure"

// agreement is what all processes must agree on, as it is stored.
type agreement struct {
	format     int
	buckets    int
	serial     string
	dataCenter string
}

// agreementRow are its cells.
type agreementRow struct {
	format, buckets    *int
	serial, datacenter *string
}

func (r *agreementRow) destinations() map[string]any {
	return map[string]any{"format": &r.format, "buckets": &r.buckets, "serial": &r.serial, "datacenter": &r.datacenter}
}

func (c Config) agreement() agreement {
	return agreement{format: FormatVersion, buckets: int(c.Buckets), serial: c.Serial.String(), dataCenter: c.DataCenter}
}

// compare names every difference between what is stored and what c says.
func (a agreement) compare(c Config) error {
	switch {
	case a.format > FormatVersion:
		return ownership.Invalid("format of the tables", a.format,
			fmt.Sprintf("must be %d, the newest that this build knows", FormatVersion), "update this process before it takes part")
	case a.format < FormatVersion:
		return ownership.Invalid("format of the tables", a.format, fmt.Sprintf("must be %d", FormatVersion), "call Migrate once, when every process can work with it")
	}
	var faults []error
	differs := func(field string, ours, stored any, consequence string) {
		faults = append(faults, ownership.Invalid(field, ours, fmt.Sprintf("must be %v, which the tables in keyspace %s were created with", stored, c.Keyspace),
			"configure every process alike: "+consequence))
	}
	if want := int(c.Buckets); want != a.buckets {
		differs("Buckets", c.Buckets, Buckets(a.buckets), "under another rule tokens would start again")
	}
	if want := c.Serial.String(); want != a.serial {
		differs("Serial", want, a.serial, "the two do not exclude each other")
	}
	if c.DataCenter != a.dataCenter {
		differs("DataCenter", fmt.Sprintf("%q", c.DataCenter), fmt.Sprintf("%q", a.dataCenter), "two data centres would decide, each for itself")
	}
	return errors.Join(faults...)
}

func (a *admin) metaRoute() route { return route{keyspace: a.cfg.Keyspace, key: []byte(metaID)} }

var errNoAgreement = errors.New("the meta table is empty: CreateSchema has not finished; call it again")

// readMeta reads what is stored. The row is written once, so a read that misses
// it at LOCAL_QUORUM, before it has got about, asks everybody.
func (a *admin) readMeta(ctx context.Context) (agreement, error) {
	s := built(qualified(a.cfg.Keyspace, schemaMeta).SelectBuilder("format", "buckets", "serial", "datacenter")).bind(values{"id": metaID})
	ans, err := ask(ctx, a, a.metaRoute(), a.commit, (*agreementRow).destinations, s)
	if err == nil && len(ans.rows) == 0 && a.commit != gocql.Quorum {
		ans, err = ask(ctx, a, a.metaRoute(), gocql.Quorum, (*agreementRow).destinations, s)
	}
	switch {
	case err != nil:
		return agreement{}, err
	case len(ans.rows) == 0:
		return agreement{}, errNoAgreement
	}
	r := ans.rows[0]
	return agreement{format: orZero(r.format), buckets: orZero(r.buckets), serial: orZero(r.serial), dataCenter: orZero(r.datacenter)}, nil
}

// storeMeta writes the row unless there is one. Always by SERIAL, whatever cfg
// says: processes that disagree about Serial must not both be first.
func (a *admin) storeMeta(ctx context.Context) error {
	want := a.cfg.agreement()
	s := built(qb.Insert(qualified(a.cfg.Keyspace, schemaMeta).Name()).
		Columns("id", "format", "buckets", "serial", "datacenter").Unique()).
		bind(values{"id": metaID, "format": want.format, "buckets": want.buckets, "serial": want.serial, "datacenter": want.dataCenter})
	return a.settleMeta(ctx, s)
}

// settleMeta sends a change of the meta row until its outcome is known. Sending
// it again is safe: none is applied twice.
func (a *admin) settleMeta(ctx context.Context, s statement) error {
	global := newClient(a.session, gocql.Serial)
	var err error
	for range tries {
		try, cancel := context.WithTimeout(ctx, schemaTimeout)
		_, err = change(try, global, a.metaRoute(), (*agreementRow).destinations, s)
		cancel()
		if err == nil || ctx.Err() != nil || classify(err) == ownership.NotApplied && blameFor(err) == innocent {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s.%s: %w", a.cfg.Keyspace, MetaTable, explain(err))
	}
	return nil
}

// Migrate brings the tables from an older format to [FormatVersion], step by
// step. It can be called again, and by many processes at once; processes that
// only know the older format must be stopped before. Of cfg it looks at Keyspace,
// Serial, DataCenter and Buckets.
//
// There has been one format so far, so there is no step yet, and Migrate has
// nothing to do.
func Migrate(ctx context.Context, session *gocql.Session, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validateStore(session); err != nil {
		return fmt.Errorf("cassandra.Migrate: %w", err)
	}
	a := newAdmin(session, cfg)
	m := migration{current: FormatVersion, steps: migrations, read: a.readFormat, advance: a.advanceFormat}
	if err := m.run(ctx, a); err != nil {
		return fmt.Errorf("cassandra.Migrate: %w", err)
	}
	return nil
}

// step changes the tables from one format to the next. It may be repeated, after
// a failure or beside another process that does the same.
type step func(context.Context, *admin) error

// migrations are the steps, by the format that they start from.
var migrations = map[int]step{}

// migration is what Migrate works with.
type migration struct {
	current int
	steps   map[int]step
	read    func(context.Context) (int, error)
	advance func(ctx context.Context, from int) error
}

// run does one step after another, and counts the format up after each.
func (m migration) run(ctx context.Context, a *admin) error {
	for {
		format, err := m.read(ctx)
		switch {
		case err != nil:
			return err
		case format == m.current:
			return nil
		case format > m.current:
			return ownership.Invalid("format of the tables", format, fmt.Sprintf("must be at most %d, the newest that this build knows", m.current), "use a newer build")
		}
		do, ok := m.steps[format]
		if !ok {
			return ownership.Invalid("format of the tables", format, "must be one that this build can migrate from: "+known(m.steps), "check the keyspace")
		}
		if err := do(ctx, a); err != nil {
			return fmt.Errorf("migrating the tables from format %d: %w", format, err)
		}
		if err := m.advance(ctx, format); err != nil {
			return fmt.Errorf("migrating the tables from format %d: %w", format, err)
		}
	}
}

func known(steps map[int]step) string {
	if len(steps) == 0 {
		return "there is none yet"
	}
	var list []string
	for from := range steps {
		list = append(list, fmt.Sprint(from))
	}
	return strings.Join(list, ", ")
}

func (a *admin) readFormat(ctx context.Context) (int, error) {
	stored, err := a.readMeta(ctx)
	return stored.format, err
}

// advanceFormat counts the format up, unless somebody has. The next read tells.
func (a *admin) advanceFormat(ctx context.Context, from int) error {
	return a.settleMeta(ctx, built(qb.Update(qualified(a.cfg.Keyspace, schemaMeta).Name()).SetNamed("format", "next").
		Where(qb.Eq("id")).If(qb.EqNamed("format", "expected"))).
		bind(values{"id": metaID, "next": from + 1, "expected": from}))
}
