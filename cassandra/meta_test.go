package cassandra

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/ownership"
)

// Who disagrees with the tables is refused, and both sides are named.
func TestAgreement(t *testing.T) {
	cfg := Config{Keyspace: "ks", Serial: gocql.LocalSerial, DataCenter: "dc1", Buckets: 8}
	if err := cfg.agreement().compare(cfg); err != nil {
		t.Fatal(err)
	}
	other := Config{Keyspace: "ks", Serial: gocql.Serial, Buckets: 0}
	wantFaults(t, cfg.agreement().compare(other), "Buckets is 0 (one for each resource): it must be 8",
		"Serial is SERIAL: it must be LOCAL_SERIAL", `DataCenter is "": it must be "dc1"`, "keyspace ks")
	newer := cfg.agreement()
	newer.format = FormatVersion + 1
	wantFaults(t, newer.compare(other), "format of the tables is 2: it must be 1", "update this process")
	older := cfg.agreement()
	older.format = FormatVersion - 1
	wantFaults(t, older.compare(cfg), "format of the tables is 0", "call Migrate")
}

// fakeTables are tables of some format, with steps that change it.
type fakeTables struct {
	format int
	done   []int
}

func (f *fakeTables) migration(current int, failAt int) migration {
	m := migration{current: current, steps: map[int]step{}}
	for from := 1; from < current; from++ {
		m.steps[from] = func(context.Context, *admin) error {
			if from == failAt {
				return errors.New("disk full")
			}
			f.done = append(f.done, from)
			return nil
		}
	}
	m.read = func(context.Context) (int, error) { return f.format, nil }
	m.advance = func(_ context.Context, from int) error {
		if f.format == from {
			f.format++
		}
		return nil
	}
	return m
}

// Formats are climbed one by one, a failure stops at the last good one, and what
// is newer, or older than any step, is refused.
func TestMigration(t *testing.T) {
	f := &fakeTables{format: 1}
	if err := f.migration(4, 3).run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "from format 3: disk full") {
		t.Fatalf("%v; want the failure of a step", err)
	}
	if f.format != 3 {
		t.Fatalf("format %d after the failure of step 3", f.format)
	}
	if err := f.migration(4, 0).run(t.Context(), nil); err != nil || f.format != 4 {
		t.Fatalf("%v, format %d; want it taken up where it stopped", err, f.format)
	}
	if len(f.done) != 3 {
		t.Errorf("steps %v, want each once", f.done)
	}
	if err := f.migration(4, 0).run(t.Context(), nil); err != nil || len(f.done) != 3 {
		t.Errorf("%v, steps %v; want nothing to do", err, f.done)
	}
	wantFaults(t, f.migration(3, 0).run(t.Context(), nil), "format of the tables is 4", "at most 3")
	f.format = 0
	wantFaults(t, f.migration(3, 0).run(t.Context(), nil), "format of the tables is 0", "migrate from")
	// Another process is a step ahead: its count is taken as it is.
	f = &fakeTables{format: 1}
	m := f.migration(3, 0)
	advance := m.advance
	m.advance = func(ctx context.Context, from int) error { f.format = 3; return advance(ctx, from) }
	if err := m.run(t.Context(), nil); err != nil || f.format != 3 {
		t.Errorf("%v, format %d", err, f.format)
	}
	m.read = func(context.Context) (int, error) { return 0, ownership.ErrUnknown }
	if err := m.run(t.Context(), nil); !errors.Is(err, ownership.ErrUnknown) {
		t.Errorf("%v; want the error of the read", err)
	}
}

// The first format has nothing to migrate from.
func TestMigrationsAreComplete(t *testing.T) {
	if len(migrations) != FormatVersion-1 {
		t.Errorf("%d steps to format %d", len(migrations), FormatVersion)
	}
}
