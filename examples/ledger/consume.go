package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/offsetstore"
)

const topic = "transfers"

// consumer reads transfers, and begins where the books are. It never commits: the books do.
func (b *books) consumer(c streams.ConsumerConfig) (*streams.Consumer, error) {
	c.Group, c.Topics, c.Offsets = b.group, []string{topic}, b
	return streams.NewConsumer(c)
}

// source is a consumer, as far as following it takes one.
type source interface {
	Poll(ctx context.Context) ([]streams.ConsumerRecord, error)
	SeekTo(tp streams.TopicPartition, at streams.StartAt) error
}

// follow books what comes until the context ends, and tells of each transaction how many transfers it had.
func (b *books) follow(ctx context.Context, c source, booked func(n int)) error {
	for ctx.Err() == nil {
		records, err := c.Poll(ctx)
		if err == nil && len(records) > 0 {
			err = b.Book(ctx, records)
			if err == nil {
				booked(len(records))
			} else {
				err = again(ctx, c, records, err)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// again goes back to where the books are after a transaction that has failed, or of which it is not known. Partitions that somebody else has
// by now are his to read. Other failures than his being first are of the database, and one lets it come to itself.
func again(ctx context.Context, c source, records []streams.ConsumerRecord, failed error) error {
	if ctx.Err() != nil {
		return nil
	}
	if !errors.Is(failed, offsetstore.ErrFenced) {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
	seen := map[streams.TopicPartition]bool{}
	for _, r := range records {
		tp := r.TopicPartition()
		if seen[tp] {
			continue
		}
		seen[tp] = true
		var gone *streams.NotAssignedError
		if err := c.SeekTo(tp, streams.FromCommitted()); err != nil && !errors.As(err, &gone) {
			return fmt.Errorf("go back after %w: %w", failed, err)
		}
	}
	return nil
}
