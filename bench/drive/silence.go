package main

import (
	"slices"
	"time"
)

// sighting is an output of an instance, at a time in Unix milliseconds by the broker's clock.
type sighting struct {
	at int64
	by byte
}

// timeline is what was seen in one output partition, in the order of its records; of equal sightings in a row there is the first.
type timeline []sighting

func (t timeline) add(s sighting) timeline {
	if n := len(t); n > 0 && t[n-1] == s {
		return t
	}
	return append(t, s)
}

// window is a stretch of time: from an event to the moment when all that it led to is over.
type window struct{ from, to int64 }

// gap is a silence between two outputs.
type gap struct{ from, to int64 }

func (g gap) seconds() float64 { return float64(g.to-g.from) / 1000 }

// longest is the longest silence that touches the window, in its whole length. One that has not ended counts up to the end of the window.
func (t timeline) longest(w window) gap {
	var worst gap
	last := w.from // before the first output there is silence too
	for _, s := range t {
		if s.at > w.from && last < w.to && s.at-last > worst.to-worst.from {
			worst = gap{last, s.at}
		}
		if last = s.at; last >= w.to {
			break
		}
	}
	if w.to-last > worst.to-worst.from {
		worst = gap{last, w.to}
	}
	return worst
}

// silent is the sum of the silences that touch the window and are longer than so many milliseconds, in seconds. It counts each in its whole
// length, and one that has not ended up to the end of the window.
func (t timeline) silent(w window, longer int64) float64 {
	sum, last := int64(0), w.from
	add := func(until int64) {
		if until-last > longer {
			sum += until - last
		}
	}
	for _, s := range t {
		if s.at > w.from && last < w.to {
			add(s.at)
		}
		if last = s.at; last >= w.to {
			break
		}
	}
	if last < w.to {
		add(w.to)
	}
	return float64(sum) / 1000
}

// within is the longest silence that lies in the window with both ends.
func (t timeline) within(w window) gap {
	var worst gap
	for i := 1; i < len(t); i++ {
		if t[i-1].at >= w.from && t[i].at <= w.to && t[i].at-t[i-1].at > worst.to-worst.from {
			worst = gap{t[i-1].at, t[i].at}
		}
	}
	return worst
}

// owner is the instance that put out last at that time, or 0.
func (t timeline) owner(at int64) byte {
	var by byte
	for _, s := range t {
		if s.at > at {
			break
		}
		by = s.by
	}
	return by
}

// owners are the instances that put out in the window, one after the other, beginning with the one that had the partition before, and ending
// with the one that ended the last silence. More than one means that the partition moved.
func (t timeline) owners(w window) []byte {
	var all []byte
	if by := t.owner(w.from); by != 0 {
		all = append(all, by)
	}
	for _, s := range t {
		if s.at > w.from && (len(all) == 0 || all[len(all)-1] != s.by) {
			all = append(all, s.by)
		}
		if s.at >= w.to {
			break
		}
	}
	return all
}

// arrival is the first output of one of the instances in the window, or false.
func (t timeline) arrival(w window, instances []byte) (int64, bool) {
	for _, s := range t {
		if s.at > w.from && s.at <= w.to && slices.Contains(instances, s.by) {
			return s.at, true
		}
	}
	return 0, false
}

// handovers is how often the partition was handed from one instance to another in the window.
func (t timeline) handovers(w window) int { return max(0, len(t.owners(w))-1) }

// longestOf is the longest silence of any of the partitions.
func longestOf(lines []timeline, w window) gap {
	var worst gap
	for _, t := range lines {
		if g := t.longest(w); g.to-g.from > worst.to-worst.from {
			worst = g
		}
	}
	return worst
}

// usual is the median and the 99th percentile of the time between two outputs of a partition in the window, in milliseconds.
func usual(lines []timeline, w window) (p50, p99 float64) {
	var gaps []time.Duration
	for _, t := range lines {
		for i := 1; i < len(t); i++ {
			if t[i-1].at >= w.from && t[i].at <= w.to {
				gaps = append(gaps, time.Duration(t[i].at-t[i-1].at)*time.Millisecond)
			}
		}
	}
	return milliseconds(quantile(gaps, .5)), milliseconds(quantile(gaps, .99))
}
