package endtoend_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/tenure-go/tenure/cassandra"
	"github.com/tenure-go/tenure/integration/cluster"
	"github.com/tenure-go/tenure/ownership"
	"github.com/tenure-go/tenure/ownership/lease"
)

// BenchmarkClaim compares the claim statement (fence and grant in one conditional
// batch) with a bare INSERT … IF NOT EXISTS of the same row, turn by turn on one
// cluster in one run. It reports both medians and their ratio, the median of five
// rounds.
//
//	cd integration && go test ./endtoend -run '^$' -bench Claim -benchtime 1x
func BenchmarkClaim(b *testing.B) {
	bed := newBed(b, cluster.Cassandra{}, nil)
	session := bed.connect(b, nil)
	store, err := cassandra.NewStore(session, bed.cfg)
	if err != nil {
		b.Fatal(err)
	}
	bare := bed.cfg.Keyspace + ".bare"
	if err := session.Query("CREATE TABLE " + bare +
		" (bucket text, resource text, held bigint, session uuid, attempt uuid, owner text, PRIMARY KEY (bucket, resource))").Exec(); err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	insert := "INSERT INTO " + bare + " (bucket, resource, held, session, attempt, owner) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS"
	n := 0
	oneBare := func() time.Duration {
		n++
		name := fmt.Sprintf("r-%d", n)
		q := session.Query(insert, name, name, int64(1), gocql.MustRandomUUID(), gocql.MustRandomUUID(), "owner").
			WithContext(ctx).RetryPolicy(nil).SerialConsistency(gocql.Serial).Consistency(gocql.Quorum)
		defer q.Release()
		sink := map[string]any{}
		start := time.Now()
		if applied, err := q.MapScanCAS(sink); err != nil || !applied {
			b.Fatalf("bare insert: applied %v, %v", applied, err)
		}
		return time.Since(start)
	}
	oneClaim := func() time.Duration {
		n++
		name := fmt.Sprintf("r-%d", n)
		c := lease.Claim{Bucket: store.Bucket(name), Next: 1, Session: lease.NewID(), Attempt: lease.NewID(), Owner: "owner",
			Rows: []lease.ClaimRow{{Resource: name}}}
		start := time.Now()
		if r := store.Claim(ctx, c); r.Outcome != ownership.Applied {
			b.Fatalf("claim: %s, %v", r.Outcome, r.Err)
		}
		return time.Since(start)
	}
	const rounds, each = 5, 200
	for range each { // warm up: statements prepared, servers compiled
		oneBare()
		oneClaim()
	}
	for b.Loop() {
		var ratios, bares, claims []float64
		for range rounds {
			var x, y []time.Duration
			for range each {
				x = append(x, oneBare())
				y = append(y, oneClaim())
			}
			slices.Sort(x)
			slices.Sort(y)
			p50x, p50y := x[len(x)/2], y[len(y)/2]
			bares = append(bares, float64(p50x.Microseconds()))
			claims = append(claims, float64(p50y.Microseconds()))
			ratios = append(ratios, float64(p50y)/float64(p50x))
		}
		b.ReportMetric(median(bares), "bare-p50-µs")
		b.ReportMetric(median(claims), "claim-p50-µs")
		b.ReportMetric(median(ratios), "ratio")
	}
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
