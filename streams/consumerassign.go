package streams

import (
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/consume"
	"github.com/understudy-streams/understudy/task"
)

// ErrSubscribed is returned by Assign and Unassign of a [Consumer] that subscribes to topics.
var ErrSubscribed = errors.New("streams: the consumer subscribes to topics, and the group assigns its partitions: make one with ConsumerConfig.Assign to " +
	"assign them by hand, or use Pause")

// Assign adds partitions to those of ConsumerConfig.Assign, and says where they begin. One that is there already begins anew.
func (c *Consumer) Assign(starts map[TopicPartition]StartAt) error {
	ev := consume.Assign{Starts: map[task.TopicPartition]consume.Start{}}
	for tp, s := range starts {
		ev.Starts[tp] = s.start
		if err := errors.Join(checkPartition(tp), checkStart(tp, s)); err != nil {
			return err
		}
		if err := c.canLoad(tp, s); err != nil {
			return err
		}
	}
	return c.byHand(ev)
}

// Unassign takes partitions away. What was fetched of them is not returned any more, and commits of them that are under way are refused.
func (c *Consumer) Unassign(partitions ...TopicPartition) error {
	return c.byHand(consume.Unassign{Parts: partitions})
}

func (c *Consumer) byHand(ev consume.Event) error {
	if c.cfg.Assign == nil {
		return ErrSubscribed
	}
	return c.shell.Do(ev, nil)
}

// canLoad says what is missing for a partition to begin where it was committed.
func (c *Consumer) canLoad(tp TopicPartition, s StartAt) error {
	if s.start.At == consume.Committed && c.cfg.Group == "" && c.cfg.Offsets == nil {
		return fmt.Errorf("streams: %s cannot begin at what was committed, as there is neither a group nor a store for offsets: set ConsumerConfig.Group, or "+
			"use FromEarliest, FromLatest, FromTime or FromOffset", tp)
	}
	return nil
}

func checkStart(tp TopicPartition, s StartAt) error {
	if s.start.At == consume.Exact && s.start.Value < 0 {
		return fmt.Errorf("streams: %s cannot begin at offset %d: offsets begin at 0", tp, s.start.Value)
	}
	return nil
}

func checkPartition(tp TopicPartition) error {
	if tp.Topic == "" || tp.Partition < 0 {
		return fmt.Errorf("streams: %s is no partition: it takes a topic, and a number from 0 on", tp)
	}
	return nil
}

// Seek sets the offset of the next record that is returned of a partition. Nothing that was fetched before is returned any more. It is
// committed as a position is, also if it lies before what was committed. What a crash has left behind and was not returned yet is left out from then
// on: whoever seeks says where to go on.
func (c *Consumer) Seek(partition TopicPartition, offset int64) error {
	return c.SeekTo(partition, FromOffset(offset))
}

// SeekTime is Seek to the first record whose timestamp is not before t.
func (c *Consumer) SeekTime(partition TopicPartition, t time.Time) error {
	return c.SeekTo(partition, FromTime(t))
}

// SeekTo is Seek to any place.
func (c *Consumer) SeekTo(partition TopicPartition, to StartAt) error {
	if err := errors.Join(checkStart(partition, to), c.canLoad(partition, to)); err != nil {
		return err
	}
	return c.shell.Do(consume.Seek{Part: partition, Start: to.start}, assigned(partition))
}

// Pause lets partitions return nothing until Resume. They stay assigned, and are not fetched.
func (c *Consumer) Pause(partitions ...TopicPartition) error {
	return c.shell.Do(consume.Pause{Parts: partitions}, assigned(partitions...))
}

// Resume ends a Pause.
func (c *Consumer) Resume(partitions ...TopicPartition) error {
	return c.shell.Do(consume.Pause{Parts: partitions, Off: true}, assigned(partitions...))
}

// assigned says which of the partitions is not here.
func assigned(partitions ...TopicPartition) func(*consume.Machine) error {
	return func(m *consume.Machine) error {
		for _, tp := range partitions {
			if _, ok := m.Standing(tp); !ok {
				return &NotAssignedError{Partition: tp}
			}
		}
		return nil
	}
}

// Position is the offset of the next record that is returned of a partition; false where it is not known yet, or the partition not here.
func (c *Consumer) Position(partition TopicPartition) (int64, bool) {
	s, ok := c.standing(partition)
	return s.Position, ok && s.Position >= 0
}

// Committed is the offset that this consumer has found or made committed last; false where it knows of none. It asks nobody.
func (c *Consumer) Committed(partition TopicPartition) (int64, bool) {
	s, ok := c.standing(partition)
	return s.Committed, ok && s.Committed >= 0
}

// Paused says whether a partition is paused.
func (c *Consumer) Paused(partition TopicPartition) bool {
	s, _ := c.standing(partition)
	return s.Paused
}

func (c *Consumer) standing(tp TopicPartition) (s consume.Standing, ok bool) {
	c.shell.Look(func(m *consume.Machine) { s, ok = m.Standing(tp) })
	return s, ok
}

// Assignment are the partitions that are read here, sorted.
func (c *Consumer) Assignment() (out []TopicPartition) {
	c.shell.Look(func(m *consume.Machine) { out = m.Assignment() })
	return out
}
