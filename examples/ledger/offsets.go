package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/offsetstore"
)

// nobody is the generation of a partition whose next owner may save whatever its generation is.
const nobody = -1

// move is the heart of it: the offset goes from where this process has read on to where the transaction ends, or the transaction fails. Of two
// processes that both believe to own a partition, the one that comes second finds another offset than it goes on from. The generation says
// the same sooner where the group is the same; alone it would not do, as it says nothing until the new owner has written.
func (b *books) move(ctx context.Context, tx *sql.Tx, tp streams.TopicPartition, to int64, generation int32) error {
	from, known := b.next[tp]
	var done sql.Result
	var err error
	if known {
		done, err = tx.ExecContext(ctx, `UPDATE offsets SET next = ?, generation = ? WHERE grp = ? AND topic = ? AND part = ? AND next = ? AND generation <= ?`,
			to, generation, b.group, tp.Topic, tp.Partition, from, generation)
	} else {
		done, err = tx.ExecContext(ctx, `INSERT INTO offsets VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, b.group, tp.Topic, tp.Partition, to, generation)
	}
	return moved(done, err, tp)
}

// moved tells whether a statement has written the row of a partition.
func moved(done sql.Result, err error, tp streams.TopicPartition) error {
	if err != nil {
		return err
	}
	switch rows, err := done.RowsAffected(); {
	case err != nil:
		return err
	case rows == 0:
		return fmt.Errorf("%v: %w", tp, offsetstore.ErrFenced)
	}
	return nil
}

// Load is the consumer's question where to begin, with partitions that it has just been given.
func (b *books) Load(ctx context.Context, group string, parts []streams.TopicPartition) (map[streams.TopicPartition]int64, error) {
	have := offsets{}
	err := b.in(ctx, func(tx *sql.Tx) error {
		for _, tp := range parts {
			var next int64
			err := tx.QueryRowContext(ctx, `UPDATE offsets SET generation = ? WHERE grp = ? AND topic = ? AND part = ? RETURNING next`,
				nobody, group, tp.Topic, tp.Partition).Scan(&next)
			switch {
			case err == nil:
				have[tp] = next
			case !errors.Is(err, sql.ErrNoRows):
				return fmt.Errorf("load the offset of %v: %w", tp, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, tp := range parts {
		if next, ok := have[tp]; ok {
			b.next[tp] = next
		} else {
			delete(b.next, tp)
		}
	}
	return have, nil
}

// Save is for commits of the consumer, which this program does without.
func (b *books) Save(ctx context.Context, group string, generation int32, save map[streams.TopicPartition]int64) error {
	return b.in(ctx, func(tx *sql.Tx) error {
		for tp, next := range save {
			if tp.Topic == "" || tp.Partition < 0 || next < 0 {
				return fmt.Errorf("%v has no offset %d", tp, next)
			}
			done, err := tx.ExecContext(ctx, `INSERT INTO offsets VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
				SET next = excluded.next, generation = excluded.generation WHERE generation <= excluded.generation OR excluded.generation < 0`,
				group, tp.Topic, tp.Partition, next, max(generation, nobody))
			if err := moved(done, err, tp); err != nil {
				return fmt.Errorf("save for group %q, generation %d: %w", group, generation, err)
			}
		}
		return nil
	})
}
