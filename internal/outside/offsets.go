package outside

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// GroupOffsets are the committed offsets of a group, read and written from outside of it.
type GroupOffsets struct {
	Client *kafka.Client
	Group  string

	conn *kafka.GroupConn
}

// Close closes the connection.
func (g *GroupOffsets) Close() {
	if g.conn != nil {
		g.conn.Close()
		g.conn = nil
	}
}

// Fetch asks for the offsets of partitions, in their order.
func (g *GroupOffsets) Fetch(ctx context.Context, parts []task.TopicPartition) ([]kafka.FetchedOffset, error) {
	return g.fetch(ctx, kafka.FetchOffsetsRequest{Group: g.Group, Parts: parts})
}

// All asks for the offsets of all partitions of which the group has committed one.
func (g *GroupOffsets) All(ctx context.Context) ([]kafka.FetchedOffset, error) {
	return g.fetch(ctx, kafka.FetchOffsetsRequest{Group: g.Group, All: true})
}

func (g *GroupOffsets) fetch(ctx context.Context, req kafka.FetchOffsetsRequest) (out []kafka.FetchedOffset, err error) {
	err = g.ask(ctx, func(conn *kafka.GroupConn) error {
		res, err := conn.FetchOffsets(req)
		out = res.Parts
		return errors.Join(err, res.Code.Err())
	})
	if err != nil {
		return nil, fmt.Errorf("fetch the committed offsets of group %q: %w", g.Group, err)
	}
	return out, nil
}

// Commit commits offsets without membership, which brokers take while nobody is in the group.
func (g *GroupOffsets) Commit(ctx context.Context, offsets []task.InputOffset) error {
	err := g.ask(ctx, func(conn *kafka.GroupConn) error {
		res, err := conn.CommitOffsets(kafka.CommitRequest{Group: g.Group, Generation: -1, Offsets: offsets})
		if err != nil {
			return err
		}
		for _, p := range res.Parts {
			if p.Code != kcode.None {
				return fmt.Errorf("%s: %w", p.TopicPartition, p.Code)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("commit to group %q: %w", g.Group, err)
	}
	return nil
}

// ask asks the coordinator, for as long as patience lasts while there is none.
func (g *GroupOffsets) ask(ctx context.Context, f func(*kafka.GroupConn) error) error {
	for end := time.Now().Add(patience); ; {
		err := g.once(ctx, f)
		again := errors.Is(err, kcode.CoordinatorLoadInProgress) || errors.Is(err, kcode.CoordinatorNotAvailable) || errors.Is(err, kcode.NotCoordinator)
		if err == nil || !again || !time.Now().Before(end) {
			return err
		}
		if err := Sleep(ctx, Pause); err != nil {
			return err
		}
	}
}

func (g *GroupOffsets) once(ctx context.Context, f func(*kafka.GroupConn) error) error {
	if g.conn == nil {
		addr, code, err := g.Client.Coordinator(ctx, g.Group)
		if err == nil {
			err = code.Err()
		}
		if err != nil {
			return fmt.Errorf("find the coordinator: %w", err)
		}
		if g.conn, err = g.Client.DialGroup(ctx, addr, 10*time.Second); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, g.conn.Close)()
	err := f(g.conn)
	if err != nil {
		g.Close()
	}
	return err
}
