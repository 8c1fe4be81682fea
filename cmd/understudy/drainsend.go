package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// flush writes the letters of the chunk and then, when they are acknowledged, deletes the rows of their records. A command that dies in between
// writes the letters once more when it is run again; it loses none.
func (d *drain) flush(ctx context.Context) error {
	chunk := d.chunk
	d.chunk, d.bytes = nil, 0
	if len(chunk) == 0 {
		return nil
	}
	if !d.order.apply {
		for _, r := range chunk {
			d.now.count(r)
		}
		return nil
	}
	late, cancel := grace(ctx, 5*time.Second)
	defer cancel()
	gone, err := d.write(late, chunk)
	if err != nil || len(gone) == 0 {
		return err
	}
	return d.remove(late, gone)
}

// write sends letters, in their order within each partition. It returns the records that are done with: one whose letter the topic does not take
// stays where it is.
func (d *drain) write(ctx context.Context, chunk []drained) (gone []drained, err error) {
	var order []task.TopicPartition
	by := map[task.TopicPartition][]drained{}
	for _, r := range chunk {
		if r.to.Topic == "" {
			gone = append(gone, r)
			continue
		}
		if by[r.to] == nil {
			order = append(order, r.to)
		}
		by[r.to] = append(by[r.to], r)
	}
	for _, tp := range order {
		took, err := d.sendLetters(ctx, tp, by[tp])
		if err != nil {
			return nil, err
		}
		gone = append(gone, took...)
	}
	return gone, nil
}

// sendLetters sends letters to a partition; if it refuses them together they are sent one by one.
func (d *drain) sendLetters(ctx context.Context, tp task.TopicPartition, letters []drained) (took []drained, err error) {
	records := make([]task.OutRecord, len(letters))
	for i := range letters {
		records[i] = letters[i].record
	}
	err = d.sender.send(ctx, tp, records)
	var no *refused
	switch {
	case err == nil:
		return letters, nil
	case !errors.As(err, &no):
		return nil, err
	case len(letters) == 1:
		d.now.refuse(no)
		return nil, nil
	}
	for i := range letters {
		one, err := d.sendLetters(ctx, tp, letters[i:i+1])
		if err != nil {
			return nil, err
		}
		took = append(took, one...)
	}
	return took, nil
}

// remove deletes the rows of records: payloads first, since an entry without its payload is done, while nothing would find a payload without its
// entry.
func (d *drain) remove(ctx context.Context, gone []drained) error {
	now := time.Now().UnixMilli()
	var payloads, entries []task.OutRecord
	for _, r := range gone {
		if key := payloadKey(r.key); key != nil {
			payloads = append(payloads, task.OutRecord{Key: key, Timestamp: now})
		}
		entries = append(entries, task.OutRecord{Key: []byte(r.key), Timestamp: now})
	}
	for _, rows := range [][]task.OutRecord{payloads, entries} {
		if len(rows) == 0 {
			continue
		}
		if err := d.sender.send(ctx, d.part, rows); err != nil {
			return fmt.Errorf("dead letters were written, and their records could not be deleted, so that the next run writes them again: %w", err)
		}
	}
	for _, r := range gone {
		d.now.count(r)
	}
	return nil
}

// partitions is how many a dead-letter topic has, 0 where it does not exist and is not to be made. It is made like the application does: a policy
// without dead letters has none.
func (d *drain) partitions(ctx context.Context, topic string) (int32, error) {
	if n, ok := d.letters[topic]; ok {
		return n, nil
	}
	md, err := d.client.Metadata(ctx, []string{topic})
	if err != nil {
		return 0, err
	}
	t := md.Topics[topic]
	switch {
	case t != nil && t.Err == kcode.None:
		d.letters[topic] = int32(len(t.Partitions))
		return d.letters[topic], nil
	case t != nil && t.Err != kcode.UnknownTopicOrPartition:
		return 0, fmt.Errorf("topic %q: %w", topic, t.Err)
	case d.order.topic != "":
		return 0, fmt.Errorf("there is no topic %q on these brokers", topic)
	case !d.order.apply:
		return 0, nil
	}
	n, err := d.makeLetters(ctx, topic)
	if err == nil {
		d.letters[topic] = n
	}
	return n, err
}

// makeLetters makes a dead-letter topic that takes what the retry topic has taken.
func (d *drain) makeLetters(ctx context.Context, topic string) (int32, error) {
	md, err := d.client.Metadata(ctx, []string{d.part.Topic})
	if err != nil {
		return 0, err
	}
	told, err := d.client.TopicConfigs(ctx, []string{d.part.Topic})
	if err != nil {
		return 0, err
	}
	configs := map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}
	for _, key := range []string{"max.message.bytes", "message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"} {
		if v, ok := told[d.part.Topic][key]; ok {
			configs[key] = v
		}
	}
	n := int32(len(md.Topics[d.part.Topic].Partitions))
	failed, err := d.client.CreateTopics(ctx, []kafka.NewTopic{{Name: topic, Partitions: n, Replication: -1, Configs: configs}})
	if err == nil {
		err = failed[topic]
	}
	if errors.Is(err, kcode.TopicAlreadyExists) {
		err = nil
	}
	return n, err
}
