package shell

import (
	"context"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// offsetsTimeout bounds one commit or fetch of offsets: the coordinator waits up to 5 s for its replicas.
const offsetsTimeout = 15 * time.Second

// offsetsConn is the member's third connection to the coordinator: offsets only, so that a slow commit delays no heartbeat. Its requests
// are carried out one after the other on one goroutine that ends when there are none.
type offsetsConn struct {
	client  *kafka.Client
	group   string
	request func(func(ctx context.Context))

	mu    sync.Mutex
	queue []func(ctx context.Context)
	busy  bool
	conn  *kafka.GroupConn
	shut  bool
}

func newOffsetsConn(client *kafka.Client, group string, request func(func(ctx context.Context))) *offsetsConn {
	return &offsetsConn{client: client, group: group, request: request}
}

func (o *offsetsConn) enqueue(f func(ctx context.Context)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, f)
	if !o.busy {
		o.busy = true
		o.request(o.drain)
	}
}

func (o *offsetsConn) drain(ctx context.Context) {
	for {
		o.mu.Lock()
		if len(o.queue) == 0 {
			o.busy = false
			o.mu.Unlock()
			return
		}
		f := o.queue[0]
		o.queue = o.queue[1:]
		o.mu.Unlock()
		f(ctx)
	}
}

// dial returns a connection to the coordinator at addr, the open one if it is the same.
func (o *offsetsConn) dial(ctx context.Context, addr string) (*kafka.GroupConn, error) {
	if addr == "" {
		return nil, kcode.CoordinatorNotAvailable
	}
	o.mu.Lock()
	conn := o.conn
	o.mu.Unlock()
	if conn != nil && conn.Addr() == addr {
		return conn, nil
	}
	o.drop(conn)
	conn, err := o.client.DialGroup(ctx, addr, offsetsTimeout)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shut {
		conn.Close()
		return nil, context.Canceled
	}
	o.conn = conn
	return conn, nil
}

// drop closes a connection after an error; the next request dials anew.
func (o *offsetsConn) drop(conn *kafka.GroupConn) {
	if conn == nil {
		return
	}
	conn.Close()
	o.mu.Lock()
	if o.conn == conn {
		o.conn = nil
	}
	o.mu.Unlock()
}

// reset ends the call under way, if any, with an error: the coordinator is given up.
func (o *offsetsConn) reset() {
	o.mu.Lock()
	conn := o.conn
	o.mu.Unlock()
	o.drop(conn)
}

func (o *offsetsConn) close() {
	o.mu.Lock()
	o.shut = true
	o.mu.Unlock()
	o.reset()
}

// fetch asks for committed offsets.
func (o *offsetsConn) fetch(coordinator string, parts []task.TopicPartition, done func(kafka.FetchOffsetsResponse, error)) {
	o.enqueue(func(ctx context.Context) {
		var res kafka.FetchOffsetsResponse
		conn, err := o.dial(ctx, coordinator)
		if err == nil {
			res, err = conn.FetchOffsets(kafka.FetchOffsetsRequest{Group: o.group, Parts: parts, RequireStable: true})
			if err != nil {
				o.drop(conn)
			}
		}
		fail.Point("offsets.read")
		done(res, err)
	})
}

// commit commits offsets of the group.
func (o *offsetsConn) commit(coordinator string, req kafka.CommitRequest, done func(kafka.CommitResponse, error)) {
	o.enqueue(func(ctx context.Context) {
		var res kafka.CommitResponse
		conn, err := o.dial(ctx, coordinator)
		if err == nil {
			fail.Point("commit.before")
			req.Group = o.group
			res, err = conn.CommitOffsets(req)
			if err != nil {
				o.drop(conn)
			}
		}
		fail.Point("commit.answered")
		done(res, err)
		fail.Point("commit.told")
	})
}

// offsetsOf is what an answer says of each partition.
func offsetsOf(res kafka.FetchOffsetsResponse) map[task.TopicPartition]engine.CommittedOffset {
	out := map[task.TopicPartition]engine.CommittedOffset{}
	for _, p := range res.Parts {
		out[p.TopicPartition] = engine.CommittedOffset{Offset: p.Offset, Metadata: p.Metadata, Code: p.Code}
	}
	return out
}

// codesOf is what became of each partition of a commit.
func codesOf(res kafka.CommitResponse) map[task.TopicPartition]kcode.Code {
	out := map[task.TopicPartition]kcode.Code{}
	for _, p := range res.Parts {
		out[p.TopicPartition] = p.Code
	}
	return out
}
