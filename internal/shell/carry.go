package shell

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// carry carries one action of the engine out. What may block goes to a goroutine of its own.
func (r *Runtime) carry(a engine.Action) {
	switch a := a.(type) {
	case engine.EnsureTopics:
		r.request(r.ensure)
	case engine.MemberAction:
		if _, all := a.Action.(group.Disconnect); all {
			r.offsets.reset()
		}
		r.member.Carry(a.Action)
	case engine.FetchOffsets:
		r.offsets.fetch(a.Coordinator, a.Parts, func(res kafka.FetchOffsetsResponse, err error) {
			r.post(engine.OffsetsFetched{Request: a.Request, Err: err, Code: res.Code, Offsets: offsetsOf(res)})
		})
	case engine.CommitOffsets:
		req := kafka.CommitRequest{MemberID: a.MemberID, Generation: a.Generation, Offsets: a.Offsets}
		r.offsets.commit(a.Coordinator, req, func(res kafka.CommitResponse, err error) {
			r.post(engine.OffsetsCommitted{Request: a.Request, Err: err, Codes: codesOf(res)})
		})
	case engine.ListOffsets:
		r.request(func(ctx context.Context) { r.list(ctx, a) })
	case engine.RefreshMetadata:
		r.request(func(ctx context.Context) { r.refresh(ctx, a) })
	case engine.AskLag:
		r.request(r.askLag)
	case engine.PurgeRecords:
		r.request(func(ctx context.Context) { r.purge(ctx, a.Before) })
	case engine.OpenStores:
		r.stores.open(a)
	case engine.CloseStores:
		r.stores.close(a)
	case engine.Apply:
		r.stores.apply(a)
	case engine.Wipe:
		r.stores.wipe(a)
	case engine.Recycle:
		r.cfg.Client.Recycle(a.Batches)
	case engine.FreeReaders:
		r.stores.freeReaders(a)
	case engine.ListStored:
		r.stores.list()
	case engine.DropStored:
		r.stores.drop(a)
	case engine.ProbeDisk:
		r.request(r.disk.probe)
	case engine.ReadyStores:
		r.request(r.disk.ready)
	case engine.Fetch:
		r.fetch.event(a.Purpose, a.Broker, a.Event)
	case engine.StartTask:
		r.tasks.start(a)
	case engine.ToTask:
		r.tasks.tell(a.Task, a.Epoch, a.Event)
	case engine.ToSender:
		if _, void := a.Event.(engine.DropAll); void {
			r.offsets.reset() // a commit that nobody answers is void too, and would hold up what comes next
		}
		r.sender.put(a.Event)
	case engine.Wake:
		r.wake.set(a.At)
	case engine.Note:
		r.notify(a.Note)
	case engine.Done:
		r.done, r.err = true, a.Err
	}
}

func (r *Runtime) ensure(ctx context.Context) {
	r.post(r.cfg.Ensure(ctx))
}

func (r *Runtime) list(ctx context.Context, a engine.ListOffsets) {
	ev := engine.OffsetsListed{Request: a.Request}
	ev.Earliest, ev.Err = r.listAt(ctx, kafka.Earliest, a.Parts)
	if len(ev.Earliest) > 0 {
		var err error
		ev.End, err = r.listAt(ctx, kafka.Latest, slices.Collect(maps.Keys(ev.Earliest)))
		ev.Err = cmp.Or(ev.Err, err)
	}
	fail.Point("ends.read")
	r.post(ev)
}

// listAt returns what is known, and why the rest is not.
func (r *Runtime) listAt(ctx context.Context, at kafka.At, tps []task.TopicPartition) (out map[task.TopicPartition]int64, err error) {
	got, err := r.cfg.Client.ListOffsets(ctx, at, tps)
	out = make(map[task.TopicPartition]int64, len(got))
	for tp, o := range got {
		if o.Err != nil {
			err = o.Err
			continue
		}
		out[tp] = o.Offset
	}
	return out, err
}

// refresh asks for leaders, for the engine.
func (r *Runtime) refresh(ctx context.Context, a engine.RefreshMetadata) {
	topics := a.Topics
	if a.All {
		topics = nil
	}
	md, err := r.cfg.Client.Metadata(ctx, topics)
	if err != nil {
		r.post(engine.MetadataKnown{Err: err})
		return
	}
	ev := engine.MetadataKnown{Leaders: map[task.TopicPartition]engine.Leader{}, Counts: map[string]int32{}, IDs: map[string][16]byte{}, All: a.All}
	for name, t := range md.Topics {
		if t.Err != kcode.None || a.All && !slices.Contains(a.Topics, name) && !r.cfg.Engine.Matches(name) {
			continue
		}
		ev.Counts[name], ev.IDs[name] = int32(len(t.Partitions)), t.ID
		for i, p := range t.Partitions {
			ev.Leaders[task.TopicPartition{Topic: name, Partition: int32(i)}] = engine.Leader{Broker: p.Leader, Epoch: p.LeaderEpoch}
		}
	}
	r.post(ev)
}

// purge deletes what has been read. A failure is no harm: the next purge covers it.
func (r *Runtime) purge(ctx context.Context, before map[task.TopicPartition]int64) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	fail.Point("purge.before")
	failed, err := r.cfg.Client.DeleteRecords(ctx, before)
	fail.Point("purge.after")
	for tp, e := range failed {
		if err == nil && e != nil {
			r.noticeLater(engine.Notice{Kind: engine.NoticeRetry, What: "purge of " + tp.String(), Err: e})
		}
	}
	if err != nil && ctx.Err() == nil {
		r.noticeLater(engine.Notice{Kind: engine.NoticeRetry, What: "purge", Err: err})
	}
}

// notify tells the listener. One that panics ends the application, cleanly: the fault is not in what the runtime holds.
func (r *Runtime) notify(n engine.Notice) {
	if r.cfg.Notice == nil {
		return
	}
	err := guarded("the listener", func() error { r.cfg.Notice(n); return nil })
	if err != nil && r.fault == nil {
		r.fault = err
		r.core.put(engine.Close{})
	}
}

// noticeLater reports something from a goroutine other than the core loop's.
func (r *Runtime) noticeLater(n engine.Notice) { r.post(engine.Heard{Note: n}) }

// troubled says that a connection has failed, unless it was ended here. The machines only try again, and an outage would be passed over in silence.
func (r *Runtime) troubled(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, kafka.ErrClosed) {
		r.noticeLater(engine.Notice{Kind: engine.NoticeRetry, What: what, Err: err})
	}
}
