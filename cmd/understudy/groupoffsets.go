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

// groupOffsets are the committed offsets of a group, read and written from outside of it.
type groupOffsets struct {
	client *kafka.Client
	group  string
	conn   *kafka.GroupConn
}

func (g *groupOffsets) close() {
	if g.conn != nil {
		g.conn.Close()
		g.conn = nil
	}
}

// fetch asks for the offsets of partitions, in their order.
func (g *groupOffsets) fetch(ctx context.Context, parts []task.TopicPartition) (out []kafka.FetchedOffset, err error) {
	err = g.ask(ctx, func(conn *kafka.GroupConn) error {
		res, err := conn.FetchOffsets(kafka.FetchOffsetsRequest{Group: g.group, Parts: parts})
		out = res.Parts
		return errors.Join(err, res.Code.Err())
	})
	if err != nil {
		return nil, fmt.Errorf("fetch the committed offsets of group %q: %w", g.group, err)
	}
	return out, nil
}

// commit commits offsets without membership, which brokers take while nobody is in the group.
func (g *groupOffsets) commit(ctx context.Context, offsets []task.InputOffset) error {
	err := g.ask(ctx, func(conn *kafka.GroupConn) error {
		res, err := conn.CommitOffsets(kafka.CommitRequest{Group: g.group, Generation: -1, Offsets: offsets})
		if err != nil {
			return err
		}
		for _, p := range res.Parts {
			if p.Code != kcode.None {
				return p.Code
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("commit to group %q: %w", g.group, err)
	}
	return nil
}

// ask asks the coordinator, for as long as patience lasts while there is none.
func (g *groupOffsets) ask(ctx context.Context, f func(*kafka.GroupConn) error) error {
	for end := time.Now().Add(patience); ; {
		err := g.once(ctx, f)
		again := errors.Is(err, kcode.CoordinatorLoadInProgress) || errors.Is(err, kcode.CoordinatorNotAvailable) || errors.Is(err, kcode.NotCoordinator)
		if err == nil || !again || !time.Now().Before(end) {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (g *groupOffsets) once(ctx context.Context, f func(*kafka.GroupConn) error) error {
	if g.conn == nil {
		addr, code, err := g.client.Coordinator(ctx, g.group)
		if err == nil {
			err = code.Err()
		}
		if err != nil {
			return fmt.Errorf("find the coordinator: %w", err)
		}
		if g.conn, err = g.client.DialGroup(ctx, addr, 10*time.Second); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, g.conn.Close)()
	err := f(g.conn)
	if err != nil {
		g.close()
	}
	return err
}
