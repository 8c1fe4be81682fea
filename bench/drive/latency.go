package main

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// appended is a record as far as its latency matters.
type appended struct {
	key   string
	count int64 // of an output of count
	at    time.Time
}

// latency compares the times at which the broker appended input and output. The first quarter is left out, as everywhere.
func (r *run) latency(ctx context.Context) (why string, err error) {
	in, err := r.bench.cluster.appends(ctx, r.in.topic(), false)
	if err != nil {
		return "", err
	}
	out, err := r.bench.cluster.appends(ctx, "out", r.w.does == "count")
	if err != nil {
		return "", err
	}
	var took []time.Duration
	if r.w.does == "map" {
		took, why = mapLatencies(in, out)
	} else {
		took, why = countLatencies(in, out)
	}
	if why != "" {
		return why, nil
	}
	f := r.result.Figures
	f[p50], f[p99], f[longest] = milliseconds(quantile(took, .5)), milliseconds(quantile(took, .99)), milliseconds(quantile(took, 1))
	return "", nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// appends reads a topic, by partition in the order of offsets.
func (c *cluster) appends(ctx context.Context, topic string, counts bool) (map[int32][]appended, error) {
	all := map[int32][]appended{}
	err := c.read(ctx, topic, func(r *kgo.Record) {
		a := appended{key: string(r.Key), at: r.Timestamp}
		if counts {
			a.count, _ = countIn(r.Value)
		}
		all[r.Partition] = append(all[r.Partition], a)
	})
	return all, err
}

// warm is the time from which on inputs count: a quarter of the way from the first to the last.
func warm(in map[int32][]appended) time.Time {
	var begin, end time.Time
	for _, records := range in {
		for _, r := range records {
			if begin.IsZero() || r.at.Before(begin) {
				begin = r.at
			}
			if r.at.After(end) {
				end = r.at
			}
		}
	}
	return begin.Add(end.Sub(begin) / 4)
}

// mapLatencies takes the outputs of a partition to be those of its inputs, in order.
func mapLatencies(in, out map[int32][]appended) (took []time.Duration, why string) {
	from := warm(in)
	for p, records := range in {
		if len(out[p]) != len(records) {
			return nil, "a partition of the output has not as many records as that of the input"
		}
		for i, r := range records {
			if out[p][i].key != r.key {
				return nil, "the output is in another order than the input"
			}
			if !r.at.Before(from) {
				took = append(took, out[p][i].at.Sub(r.at))
			}
		}
	}
	return took, ""
}

// countLatencies takes an input to be answered by the first output that counts it.
func countLatencies(in, out map[int32][]appended) (took []time.Duration, why string) {
	from := warm(in)
	for p, records := range in {
		waiting := map[string][]time.Time{}
		for _, r := range records {
			waiting[r.key] = append(waiting[r.key], r.at)
		}
		counted := map[string]int64{}
		for _, o := range out[p] {
			for times := waiting[o.key]; counted[o.key] < o.count && counted[o.key] < int64(len(times)); counted[o.key]++ {
				if at := times[counted[o.key]]; !at.Before(from) {
					took = append(took, o.at.Sub(at))
				}
			}
		}
		for key, times := range waiting {
			if counted[key] != int64(len(times)) {
				return nil, "an input is not counted in the partition of its key"
			}
		}
	}
	return took, ""
}

// quantile is the smallest of the times that is not below the share q of them; it sorts them.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}
