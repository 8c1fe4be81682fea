package offsetstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-streams/understudy/streams"
)

// Pebble keeps the offsets of any number of groups in a Pebble database of the user's, under a prefix. It may be used concurrently, by several
// consumers of the process. Of one database and prefix there must be one Pebble only, as it is what tells who comes second. The database is
// opened and closed by the user. Keys are read and written one by one, so any comparer will do that knows equal bytes for equal.
//
// By default Pebble ends the process when it cannot write its log; pebble.Options.Logger says otherwise.
type Pebble struct {
	db     *pebble.DB
	prefix []byte
	turn   turn
	lifted map[string]struct{} // keys that have been loaded and not saved since
}

// NewPebble keeps offsets in a database, with keys that begin with prefix; nothing else in the database may begin so.
func NewPebble(db *pebble.DB, prefix []byte) *Pebble {
	return &Pebble{db: db, prefix: append([]byte(nil), prefix...), turn: newTurn(), lifted: map[string]struct{}{}}
}

// Load returns the offsets that are stored of the partitions, and lifts their fences.
func (p *Pebble) Load(ctx context.Context, group string, parts []streams.TopicPartition) (map[streams.TopicPartition]int64, error) {
	if err := p.turn.take(ctx); err != nil {
		return nil, err
	}
	defer p.turn.give()
	out := make(map[streams.TopicPartition]int64, len(parts))
	for _, tp := range parts {
		r, stored, err := p.row(group, tp)
		if err != nil {
			return nil, err
		}
		if stored {
			out[tp] = r.offset
		}
	}
	for _, tp := range parts {
		p.lifted[string(p.key(group, tp))] = struct{}{}
	}
	return out, nil
}

// Save stores all of the offsets in one synced batch or, with an error, none. An older generation than the stored one is refused with
// [ErrFenced].
func (p *Pebble) Save(ctx context.Context, group string, generation int32, offsets map[streams.TopicPartition]int64) error {
	b := p.db.NewBatch()
	err := p.save(ctx, b, group, generation, offsets, nil)
	return errors.Join(err, b.Close())
}

// Nothing is the From of a partition of which nothing is stored.
const Nothing = -1

// Span is what one batch of results does to a partition: it goes on from the offset that is stored and ends before the next one to read.
type Span struct {
	From int64 // what Load gave, or the To of the span before; Nothing where Load gave nothing
	To   int64 // one more than the offset of the last record whose results are in the batch
}

// SaveWith commits a batch of the user's together with the offsets up to which it has the results, synced: both are there after a crash, or
// neither. If for any of the partitions the stored offset is not From, or its generation is a later one, all is refused with [ErrFenced];
// then b is as it was and not committed. So each record is in the results exactly once, whoever tries. The batch must be of the same
// database, and stays the user's to close.
func (p *Pebble) SaveWith(ctx context.Context, b *pebble.Batch, group string, generation int32, spans map[streams.TopicPartition]Span) error {
	offsets := make(map[streams.TopicPartition]int64, len(spans))
	for tp, s := range spans {
		offsets[tp] = s.To
	}
	return p.save(ctx, b, group, generation, offsets, func(tp streams.TopicPartition, r row, stored bool) error {
		have := int64(Nothing)
		if stored {
			have = r.offset
		}
		if want := spans[tp].From; want != have {
			return fmt.Errorf("offsetstore: the offset of %v for group %q is %d and not %d, from where this batch goes on (%d: nothing): %w", tp, group, have, want, Nothing, ErrFenced)
		}
		return nil
	})
}

// save looks first and writes then, so that what is refused leaves no trace.
func (p *Pebble) save(ctx context.Context, b *pebble.Batch, group string, generation int32, offsets map[streams.TopicPartition]int64,
	more func(streams.TopicPartition, row, bool) error,
) error {
	if err := check(offsets); err != nil {
		return err
	}
	if err := p.turn.take(ctx); err != nil {
		return err
	}
	defer p.turn.give()
	for tp := range offsets {
		if err := p.admit(group, tp, generation, more); err != nil {
			return err
		}
	}
	for tp, offset := range offsets {
		if err := b.Set(p.key(group, tp), value(row{offset, max(generation, none)}), nil); err != nil {
			return fmt.Errorf("offsetstore: add the offset of %v to the batch: %w", tp, err)
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("offsetstore: commit the offsets of group %q: %w", group, err)
	}
	for tp := range offsets {
		delete(p.lifted, string(p.key(group, tp)))
	}
	return nil
}

func (p *Pebble) admit(group string, tp streams.TopicPartition, generation int32, more func(streams.TopicPartition, row, bool) error) error {
	r, stored, err := p.row(group, tp)
	if err != nil {
		return err
	}
	if _, lifted := p.lifted[string(p.key(group, tp))]; stored && !lifted {
		if err := r.admit(group, tp, generation); err != nil {
			return err
		}
	}
	if more == nil {
		return nil
	}
	return more(tp, r, stored)
}

// row reads what is stored of a partition.
func (p *Pebble) row(group string, tp streams.TopicPartition) (r row, stored bool, err error) {
	bytes, closer, err := p.db.Get(p.key(group, tp))
	if errors.Is(err, pebble.ErrNotFound) {
		return row{}, false, nil
	}
	if err == nil {
		r, err = rowOf(bytes)
		err = errors.Join(err, closer.Close())
	}
	if err != nil {
		return row{}, false, fmt.Errorf("offsetstore: read the offset of %v for group %q: %w", tp, group, err)
	}
	return r, true, nil
}
