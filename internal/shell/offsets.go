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
	r     *Runtime
	mu    sync.Mutex
	queue []func(ctx context.Context)
	busy  bool
	conn  *kafka.GroupConn
	shut  bool
}

func newOffsetsConn(r *Runtime) *offsetsConn { return &offsetsConn{r: r} }

func (o *offsetsConn) enqueue(f func(ctx context.Context)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, f)
	if !o.busy {
		o.busy = true
		o.r.request(o.drain)
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
	conn, err := o.r.cfg.Client.DialGroup(ctx, addr, offsetsTimeout)
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

func (o *offsetsConn) fetch(a engine.FetchOffsets) {
	o.enqueue(func(ctx context.Context) {
		ev := engine.OffsetsFetched{Request: a.Request}
		var res kafka.FetchOffsetsResponse
		conn, err := o.dial(ctx, a.Coordinator)
		if err == nil {
			res, err = conn.FetchOffsets(kafka.FetchOffsetsRequest{Group: o.r.cfg.Engine.Group.Group, Parts: a.Parts, RequireStable: true})
			if err != nil {
				o.drop(conn)
			}
		}
		fail.Point("offsets.read")
		ev.Err, ev.Code = err, res.Code
		ev.Offsets = map[task.TopicPartition]engine.CommittedOffset{}
		for _, p := range res.Parts {
			ev.Offsets[p.TopicPartition] = engine.CommittedOffset{Offset: p.Offset, Metadata: p.Metadata, Code: p.Code}
		}
		o.r.post(ev)
	})
}

func (o *offsetsConn) commit(a engine.CommitOffsets) {
	o.enqueue(func(ctx context.Context) {
		ev := engine.OffsetsCommitted{Request: a.Request, Codes: map[task.TopicPartition]kcode.Code{}}
		var res kafka.CommitResponse
		conn, err := o.dial(ctx, a.Coordinator)
		if err == nil {
			fail.Point("commit.before")
			res, err = conn.CommitOffsets(kafka.CommitRequest{
				Group: o.r.cfg.Engine.Group.Group, MemberID: a.MemberID, Generation: a.Generation, Offsets: a.Offsets,
			})
			if err != nil {
				o.drop(conn)
			}
		}
		fail.Point("commit.answered")
		ev.Err = err
		for _, p := range res.Parts {
			ev.Codes[p.TopicPartition] = p.Code
		}
		o.r.post(ev)
		fail.Point("commit.told")
	})
}
