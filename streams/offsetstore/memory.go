package offsetstore

import (
	"context"

	"github.com/understudy-streams/understudy/streams"
)

// Memory keeps offsets for as long as the process lives: for tests. It may be used concurrently, by several consumers.
type Memory struct {
	turn turn
	rows table
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{turn: newTurn(), rows: table{}} }

// Load returns the offsets that are stored of the partitions, and lifts their fences.
func (m *Memory) Load(ctx context.Context, group string, parts []streams.TopicPartition) (map[streams.TopicPartition]int64, error) {
	if err := m.turn.take(ctx); err != nil {
		return nil, err
	}
	defer m.turn.give()
	return m.rows.load(group, parts), nil
}

// Save stores all of the offsets or, with an error, none. An older generation than the stored one is refused with [ErrFenced].
func (m *Memory) Save(ctx context.Context, group string, generation int32, offsets map[streams.TopicPartition]int64) error {
	if err := m.turn.take(ctx); err != nil {
		return err
	}
	defer m.turn.give()
	rows, err := m.rows.with(group, generation, offsets)
	if err == nil {
		m.rows = rows
	}
	return err
}
