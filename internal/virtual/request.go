package virtual

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

func (p *Process) ensure() {
	p.ask(modelbroker.MetadataRequest{Topics: p.cfg.Topics}, func(r modelbroker.Response, err error) {
		ev := engine.TopicsReady{Err: err, Temporary: true}
		if err == nil {
			_, ev.Partitions = leaders(r.(modelbroker.MetadataResponse))
		}
		p.Tell(ev)
	})
}

func (p *Process) refresh(a engine.RefreshMetadata) {
	p.ask(modelbroker.MetadataRequest{Topics: a.Topics}, func(r modelbroker.Response, err error) {
		ev := engine.MetadataKnown{Err: err}
		if err == nil {
			ev.Leaders, ev.Counts = leaders(r.(modelbroker.MetadataResponse))
		}
		p.Tell(ev)
	})
}

func leaders(r modelbroker.MetadataResponse) (map[task.TopicPartition]engine.Leader, map[string]int32) {
	by, counts := map[task.TopicPartition]engine.Leader{}, map[string]int32{}
	for _, t := range r.Topics {
		if t.Code != kcode.None {
			continue
		}
		counts[t.Name] = int32(len(t.Partitions))
		for i, part := range t.Partitions {
			by[task.TopicPartition{Topic: t.Name, Partition: int32(i)}] = engine.Leader{Broker: part.Leader, Epoch: part.LeaderEpoch}
		}
	}
	return by, counts
}

const offsetsTimeout = 15 * time.Second

func (p *Process) fetchOffsets(a engine.FetchOffsets) {
	p.offset = p.to(p.offset, a.Coordinator)
	p.offset.Call(modelbroker.OffsetFetchRequest{Group: p.cfg.Engine.Group.Group, RequireStable: true, Parts: a.Parts}, func(r modelbroker.Response, err error) {
		ev := engine.OffsetsFetched{Request: a.Request, Err: err, Offsets: map[task.TopicPartition]engine.CommittedOffset{}}
		if err == nil {
			f := r.(modelbroker.OffsetFetchResponse)
			ev.Code = f.Code
			for _, part := range f.Parts {
				ev.Offsets[part.TopicPartition] = engine.CommittedOffset{Offset: part.Offset, Metadata: part.Metadata, Code: part.Code}
			}
		}
		p.Tell(ev)
	})
	p.offset.limit(offsetsTimeout)
}

func (p *Process) commitOffsets(a engine.CommitOffsets) {
	a.Offsets = slices.Clone(a.Offsets)
	p.offset = p.to(p.offset, a.Coordinator)
	p.offset.Call(modelbroker.OffsetCommitRequest{
		Group: p.cfg.Engine.Group.Group, MemberID: a.MemberID, Generation: a.Generation, Offsets: a.Offsets,
	}, func(r modelbroker.Response, err error) {
		ev := engine.OffsetsCommitted{Request: a.Request, Err: err, Codes: map[task.TopicPartition]kcode.Code{}}
		if err == nil {
			for i, code := range r.(modelbroker.OffsetCommitResponse).Codes {
				ev.Codes[a.Offsets[i].TopicPartition] = code
			}
		}
		p.Tell(ev)
	})
	p.offset.limit(offsetsTimeout)
}

// listOffsets asks the leaders for the starts of the logs, then for the ends of those that are known.
func (p *Process) listOffsets(a engine.ListOffsets) {
	ev := engine.OffsetsListed{Request: a.Request}
	p.listAt(modelbroker.Earliest, a.Parts, func(offsets map[task.TopicPartition]int64, err error) {
		ev.Earliest, ev.Err = offsets, err
		if len(offsets) == 0 {
			p.Tell(ev)
			return
		}
		known := slices.SortedFunc(maps.Keys(offsets), task.TopicPartition.Compare)
		p.listAt(modelbroker.Latest, known, func(offsets map[task.TopicPartition]int64, err error) {
			ev.End, ev.Err = offsets, cmp.Or(ev.Err, err)
			p.Tell(ev)
		})
	})
}

func (p *Process) listAt(at modelbroker.At, parts []task.TopicPartition, done func(map[task.TopicPartition]int64, error)) {
	by := map[int32][]modelbroker.ListOffsetsPart{}
	for _, tp := range parts {
		node, _ := p.World.Broker.Leader(tp)
		by[node] = append(by[node], modelbroker.ListOffsetsPart{TopicPartition: tp, At: at, LeaderEpoch: -1})
	}
	offsets, left := map[task.TopicPartition]int64{}, len(by)
	var failed error
	for _, node := range slices.Sorted(maps.Keys(by)) {
		p.askNode(node, modelbroker.ListOffsetsRequest{Parts: by[node]}, func(r modelbroker.Response, err error) {
			if err == nil {
				for _, part := range r.(modelbroker.ListOffsetsResponse).Parts {
					if part.Code != kcode.None {
						err = part.Code
						continue
					}
					offsets[part.TopicPartition] = part.Offset
				}
			}
			if err != nil {
				failed = err
			}
			if left--; left == 0 {
				done(offsets, failed)
			}
		})
	}
}

// purge deletes what has been read. A failure is no harm: the next purge covers it.
func (p *Process) purge(a engine.PurgeRecords) {
	by := map[int32][]modelbroker.DeleteRecordsPart{}
	for _, tp := range slices.SortedFunc(maps.Keys(a.Before), task.TopicPartition.Compare) {
		node, _ := p.World.Broker.Leader(tp)
		by[node] = append(by[node], modelbroker.DeleteRecordsPart{TopicPartition: tp, Before: a.Before[tp]})
	}
	for _, node := range slices.Sorted(maps.Keys(by)) {
		p.askNode(node, modelbroker.DeleteRecordsRequest{Parts: by[node]}, func(modelbroker.Response, error) {})
	}
}
