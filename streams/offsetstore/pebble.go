package offsetstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-streams/understudy/streams"
)

// Pebble keeps the offsets of a consumer in a Pebble database of the user's, under a prefix; any number of groups have room there. Each
// consumer of a process has a Pebble of its own: the first by NewPebble, others on the same database by Another. The user opens and closes
// the database. Keys are read and written one by one, so any comparer will do for which only equal bytes are equal. It may be used concurrently.
//
// By default Pebble ends the process when it cannot write its log; pebble.Options.Logger says otherwise.
type Pebble struct {
	shared *shared
	// next is where the consumer goes on, for each key that it has loaded: what is stored, unless somebody else has been there.
	next map[string]int64
}

// shared is what all of one database and prefix have in common.
type shared struct {
	db     *pebble.DB
	prefix []byte
	turn   turn
	lifted map[string]struct{} // keys that have been loaded and not saved since
}

// nothing is the next of a partition of which nothing is stored.
const nothing = -1

// NewPebble keeps offsets in a database, with keys that begin with prefix; nothing else in the database may begin so.
func NewPebble(db *pebble.DB, prefix []byte) *Pebble {
	s := &shared{db: db, prefix: append([]byte(nil), prefix...), turn: newTurn(), lifted: map[string]struct{}{}}
	return &Pebble{shared: s, next: map[string]int64{}}
}

// Another is for another consumer of this process, on the same database and prefix.
func (p *Pebble) Another() *Pebble { return &Pebble{shared: p.shared, next: map[string]int64{}} }

// Load returns the offsets that are stored of the partitions, and lifts their fences. SaveWith goes on from there.
func (p *Pebble) Load(ctx context.Context, group string, parts []streams.TopicPartition) (map[streams.TopicPartition]int64, error) {
	if err := p.shared.turn.take(ctx); err != nil {
		return nil, err
	}
	defer p.shared.turn.give()
	out := make(map[streams.TopicPartition]int64, len(parts))
	for _, tp := range parts {
		key := p.shared.key(group, tp)
		r, stored, err := p.shared.row(key)
		if err != nil {
			return nil, fmt.Errorf("offsetstore: load the offset of %v for group %q: %w", tp, group, err)
		}
		p.next[string(key)] = nothing
		if stored {
			out[tp], p.next[string(key)] = r.offset, r.offset
		}
		p.shared.lifted[string(key)] = struct{}{}
	}
	return out, nil
}

// Save stores all of the offsets in one synced batch or, with an error, none. An older generation than the stored one is refused with
// [ErrFenced]. It is what the consumer's commits call; a program that has results in the same database calls SaveWith instead.
func (p *Pebble) Save(ctx context.Context, group string, generation int32, offsets map[streams.TopicPartition]int64) error {
	b := p.shared.db.NewBatch()
	moves := make(map[streams.TopicPartition]row, len(offsets))
	for tp, offset := range offsets {
		moves[tp] = row{offset, generation}
	}
	return errors.Join(p.save(ctx, b, group, moves, false), b.Close())
}

// SaveWith commits a batch of the user's, synced, together with the offsets up to which it has the results of records: after a crash both are
// there, or neither. The records are, of each partition, all that Poll has returned since the last SaveWith, in their order. The batch stays
// the user's to close.
//
// If somebody else has stored an offset of one of the partitions since this consumer has loaded or stored it, all is refused with [ErrFenced],
// and the batch is as it was. So each record is in the results exactly once, whoever tries. After any error the consumer has to be
// sent back, by SeekTo with FromCommitted, or the records would be passed over: until then SaveWith refuses their partitions. For one that is not
// assigned any more SeekTo is an error, which is none here.
func (p *Pebble) SaveWith(ctx context.Context, b *pebble.Batch, group string, records ...streams.ConsumerRecord) error {
	moves := make(map[streams.TopicPartition]row, 1)
	for _, r := range records {
		moves[r.TopicPartition()] = row{r.Offset + 1, r.Generation}
	}
	return p.save(ctx, b, group, moves, true)
}

// save looks first and writes then, so that what is refused leaves no trace.
func (p *Pebble) save(ctx context.Context, b *pebble.Batch, group string, moves map[streams.TopicPartition]row, exactly bool) error {
	if err := p.shared.turn.take(ctx); err != nil {
		return err
	}
	defer p.shared.turn.give()
	err := p.admit(group, moves, exactly)
	if err == nil {
		err = p.write(b, group, moves)
	}
	for tp, to := range moves {
		switch key := string(p.shared.key(group, tp)); {
		case err == nil:
			p.next[key] = to.offset
			delete(p.shared.lifted, key)
		case exactly:
			delete(p.next, key)
		}
	}
	return err
}

func (p *Pebble) admit(group string, moves map[streams.TopicPartition]row, exactly bool) error {
	for tp, to := range moves {
		if err := check(tp, to.offset); err != nil {
			return err
		}
		key := p.shared.key(group, tp)
		r, stored, err := p.shared.row(key)
		if err != nil {
			return fmt.Errorf("offsetstore: read the offset of %v for group %q: %w", tp, group, err)
		}
		if _, lifted := p.shared.lifted[string(key)]; stored && !lifted {
			if err := r.admit(group, tp, to.generation); err != nil {
				return err
			}
		}
		if !stored {
			r.offset = nothing
		}
		if next, ok := p.next[string(key)]; exactly && !ok {
			return fmt.Errorf("offsetstore: %v of group %q has not been loaded since a batch of it has failed, or never: send the consumer back with "+
				"SeekTo(%v, FromCommitted()), and give it this store as ConsumerConfig.Offsets", tp, group, tp)
		} else if exactly && next != r.offset {
			return fmt.Errorf("offsetstore: the offset of %v for group %q is %d and not %d, from where this batch goes on (%d: nothing is stored): %w",
				tp, group, r.offset, next, nothing, ErrFenced)
		}
	}
	return nil
}

func (p *Pebble) write(b *pebble.Batch, group string, moves map[streams.TopicPartition]row) error {
	for tp, to := range moves {
		if err := b.Set(p.shared.key(group, tp), value(row{to.offset, max(to.generation, none)}), nil); err != nil {
			return fmt.Errorf("offsetstore: add the offset of %v to the batch: %w", tp, err)
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("offsetstore: commit the offsets of group %q: %w", group, err)
	}
	return nil
}
