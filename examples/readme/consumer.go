package main

import (
	"context"

	"github.com/understudy-streams/understudy/streams"
)

func consume(ctx context.Context, bill func(streams.ConsumerRecord) error, brokers ...string) error {
	c, err := streams.NewConsumer(streams.ConsumerConfig{Brokers: brokers, Group: "billing", Include: []string{`orders\..*`}})
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for {
		records, err := c.Poll(ctx) // waits for some, until ctx ends
		if err != nil || ctx.Err() != nil {
			return err
		}
		for _, r := range records {
			if err := bill(r); err != nil {
				return err
			}
		}
		if err := c.Commit(ctx); err != nil {
			return err
		}
	}
}
