package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// progress is how far an application has committed.
type progress struct {
	share float64 // of the work, 0 to 1
	all   bool
	any   bool // it commits at all
}

// markers is how many transaction markers may lie past the last committed offset of a repartition partition under exactly-once.
const markers = 32

// progress compares the application's committed offsets with the ends of the input and of its repartition topics.
func (c *cluster) progress(ctx context.Context, app string, w workload, in input, eos bool) (progress, error) {
	committed, err := c.admin.FetchOffsets(ctx, app)
	if err != nil {
		if errors.Is(err, kerr.GroupIDNotFound) {
			return progress{}, nil // it has not joined yet
		}
		return progress{}, err
	}
	input, there, err := c.ends(ctx, in.topic())
	if err != nil {
		return progress{}, err
	}
	done, all := behind(input, committed, 0)
	size := int64(in.records)
	p := progress{share: float64(done) / float64(size), all: all && there >= size, any: done > 0} // while it is paced, not all is there yet
	if w.does != "wordcount" {
		return p, nil
	}
	topics, err := c.internal(ctx, app, "-repartition")
	if err != nil {
		return p, err
	}
	words, _, err := c.ends(ctx, topics...)
	if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.LeaderNotAvailable) || len(topics) == 0 {
		p.all = false // not made yet
		return p, nil
	}
	if err != nil {
		return p, err
	}
	tolerated := int64(0)
	if eos {
		tolerated = markers
	}
	counted, all := behind(words, committed, tolerated)
	// Two stages of about equal work: the lines, and their words.
	p.share = (p.share + min(1, float64(counted)/float64(wordsPerLine*size))) / 2
	p.all = p.all && all
	return p, nil
}

// behind sums the committed offsets of the topics, and says whether each is within the tolerated distance of its end.
func behind(ends kadm.ListedOffsets, committed kadm.OffsetResponses, tolerated int64) (done int64, all bool) {
	all = true
	ends.Each(func(end kadm.ListedOffset) {
		at := int64(0)
		if o, ok := committed.Lookup(end.Topic, end.Partition); ok {
			at = max(0, o.At)
		}
		done += at
		all = all && at >= end.Offset-tolerated
	})
	return done, all
}
