package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tenure-go/tenure/ownership"
)

// TryAcquireMany makes one attempt for each resource; those that share a bucket
// are claimed together, under one token, at the cost of one claim for each
// Limits.MaxBatch of them. It returns the tenures it got, in the order asked for,
// and, joined, errors that account for every resource that it did not get; a
// *[ownership.HeldError] for each one that somebody holds. All tenures returned
// are held, or were a moment ago. Names are all checked before anything is sent;
// a name given twice is one of the faults.
func (o *Ownership) TryAcquireMany(ctx context.Context, resources []string) ([]*ownership.Tenure, error) {
	if err := checkMany(resources); err != nil {
		return nil, fmt.Errorf("acquiring: %w", err)
	}
	ctx, leave, err := o.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquiring: %w", err)
	}
	defer leave()

	batches, faults := o.reserveMany(ctx, resources)
	var (
		mu     sync.Mutex
		got    = map[string]*ownership.Tenure{}
		work   sync.WaitGroup
		places = make(chan struct{}, concurrency)
	)
	for bucket, slots := range batches {
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			for batch := range slices.Chunk(slots, o.limits.MaxBatch) {
				grants, err := o.claim(ctx, bucket, batch)
				mu.Lock()
				for _, g := range grants {
					got[g.resource] = g.driver.Tenure()
				}
				if err != nil {
					faults = append(faults, err)
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	tenures := make([]*ownership.Tenure, 0, len(got))
	for _, r := range resources {
		if t := got[r]; t != nil {
			tenures = append(tenures, t)
		}
	}
	return tenures, errors.Join(faults...)
}

// concurrency is how many buckets are worked on at once: enough to hide the
// latency of an authority, little enough not to be a load on it.
const concurrency = 16

func checkMany(resources []string) error {
	var faults []error
	seen := make(map[string]bool, len(resources))
	for _, r := range resources {
		if err := ownership.CheckResource(r); err != nil {
			faults = append(faults, err)
		} else if seen[r] {
			faults = append(faults, ownership.Invalid("resource", fmt.Sprintf("%q", r), "must be given once", "remove the other"))
		}
		seen[r] = true
	}
	return errors.Join(faults...)
}

// reserveMany takes the slots of all resources that can be had, by bucket. All
// calls take theirs in one order, so that two of them never wait for each other.
func (o *Ownership) reserveMany(ctx context.Context, resources []string) (batches map[string][]*slot, faults []error) {
	batches = map[string][]*slot{}
	for _, r := range slices.Sorted(slices.Values(resources)) {
		s, err := o.reserve(ctx, r, false)
		if err != nil {
			faults = append(faults, fmt.Errorf("acquiring %s: %w", r, err))
			continue
		}
		b := o.store.Bucket(r)
		batches[b] = append(batches[b], s)
	}
	return batches, faults
}
