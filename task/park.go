package task

import (
	"errors"
	"fmt"
	"strings"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// pool is the records that a task has put aside: rows of its retry store, and what is derived from them.
type pool struct {
	index   *retry.Index
	store   *statestore.Overlay
	inputs  map[string]int // by topic
	spoiled [][]byte       // keys of rows that cannot be read
	newer   newer          // rows of a newer version
	drains  bool           // the policy puts no more aside: what is here is run before anything else

	fresh int // records of the main path since the last retry
	key   []byte
	row   []byte

	payload []byte
	rec     Record // of the running retry, with bytes of its own
	bytes   []byte
}

// freshPerRetry is how many records of the main path are taken for each retry while there are both.
const freshPerRetry = 3

// loadPool reads what lies in the retry store. A record that the last commit does not show as done is inert until the main path comes to it:
// what its retry made may be lost, and the main path has to see it in its order.
func (t *Task) loadPool(store int) error {
	p := &pool{store: t.stores[store], inputs: map[string]int{}, drains: !t.failure.set.Mode.PutsAside()}
	mode := t.failure.set.Mode
	if p.drains {
		mode = retry.ModeKeyOrdered // whatever order the records were put aside for, that of their keys is kept
	}
	p.index = retry.NewIndex(mode)
	t.failure.pool = p
	for i, in := range t.cfg.Spec.Inputs {
		p.inputs[in.Topic] = i
	}
	var strays *ParkedError
	var one retry.Origin // that a newer version has put aside
	lo, hi := retry.EntryRange()
	it := p.store.Scan(lo, hi, false)
	for it.Next() {
		o, _, err := retry.ParseKey(it.Key())
		var e retry.Entry
		if err == nil {
			e, err = retry.DecodeEntry(o, it.Row().Value)
		}
		later := errors.Is(err, retry.ErrNewer)
		if err != nil && !later {
			p.spoiled = append(p.spoiled, append([]byte(nil), it.Key()...))
			continue
		}
		done, ours := t.settled(o)
		if !ours {
			strays = t.stray(strays, o)
			continue
		}
		if later {
			p.leaveNewer(o, done)
			one = o
			continue
		}
		p.index.Load(e, !done)
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("task %v: read the retry store: %w", t.cfg.ID, err)
	}
	if strays != nil {
		return strays
	}
	if p.newer.all > 0 {
		t.alarmNewer(one)
	}
	return nil
}

// settled says whether a record that lies in the retry store is run from there, as no main path will come to it: that is done with it, or its topic
// is gone, and another one stands in or has its name. It reports false for a record of a topic that the subtopology does not read, and no pattern matches.
func (t *Task) settled(o retry.Origin) (done, ours bool) {
	for i, in := range t.cfg.Spec.Inputs {
		if in.Topic == o.Topic {
			return t.in.all[i].absent || o.ID.Other(t.topicID(i)) || t.doneBefore(i, o.Offset), true
		}
	}
	if t.cfg.Spec.StandsIn == nil {
		return false, false
	}
	i, ours := t.cfg.Spec.StandsIn(o.Topic)
	if i >= 0 {
		t.failure.pool.inputs[o.Topic] = i
	}
	return i >= 0, ours
}

// stray counts a record of a topic that the subtopology does not read any more.
func (t *Task) stray(e *ParkedError, o retry.Origin) *ParkedError {
	if e == nil {
		store := &t.cfg.Spec.Stores[t.cfg.Spec.Retries-1]
		app := strings.TrimSuffix(store.Changelog, "-"+store.Spec.Name)
		e = &ParkedError{Topic: store.Changelog, Application: app, Runs: true, Records: map[string]int{}}
	}
	e.Records[o.Topic]++
	return e
}

// doneBefore says whether the last commit shows an offset of an input as done.
func (t *Task) doneBefore(i int, offset int64) bool {
	if g := t.gap(i); g != nil && offset < g.hi {
		return !g.window.IsOpen(offset)
	}
	if w := t.in.all[i].window; w != nil {
		return offset < w.Next() && !w.IsOpen(offset)
	}
	return offset < t.in.all[i].position
}

// ahead says that the records put aside are to be run before any other is taken. Those that are inert wait for the main path to come to them.
func (p *pool) ahead() bool {
	return p.drains && (p.index.Len() > p.index.Inert() || len(p.spoiled) > 0)
}

func (p *pool) due(now int64) bool { return p.index.NextDue() <= now || len(p.spoiled) > 0 }

// turn says that a retry is to be run now, and not a record of the main path.
func (p *pool) turn(t *Task) bool {
	if !p.due(t.now) || t.names() {
		return false
	}
	if t.failure.suspects.trial == nil && p.fresh < freshPerRetry && (t.in.next() >= 0 && !t.idles() || t.replayable() != nil) {
		p.fresh++
		return false
	}
	p.fresh = 0
	return true
}

// room says whether one more can be put aside.
func (p *pool) room(f *failure) bool {
	s := &f.set
	return p.index.Len() < s.Parked && p.index.Bytes() < s.ParkedBytes
}

// origin names the record of an input.
func (t *Task) origin(i int, offset int64) retry.Origin {
	return retry.Origin{Topic: t.cfg.Spec.Inputs[i].Topic, ID: t.topicID(i), Partition: t.cfg.ID.Partition, Offset: offset}
}

// park puts a record of the main path aside, which finishes it. One that is too large for that has failed for good.
func (t *Task) park(s subject, err *Error, d retry.Decision) {
	e := retry.Entry{
		Origin: t.origin(s.input, s.r.Offset), Key: s.r.Key, NullKey: s.r.Key == nil, Attempt: d.Attempt, First: s.tries.first, Due: d.At,
		Stream: t.streamTimeOf(s), Kind: string(err.Kind), Class: d.Class, Node: err.Node, Message: err.Err.Error(),
	}
	t.parkEntry(s, &e, err)
}

// follow puts a record of the main path aside behind one of its key.
func (t *Task) follow(s subject) {
	e := retry.Entry{Origin: t.origin(s.input, s.r.Offset), Key: s.r.Key, Due: t.now, First: t.now, Stream: t.streamTimeOf(s)}
	t.parkEntry(s, &e, nil)
}

// streamTimeOf is the stream time at the arrival of a record, with its own.
func (t *Task) streamTimeOf(s subject) int64 {
	if s.item != nil {
		return s.item.StreamTime
	}
	if s.gap != nil {
		return max(s.gap.time, s.r.Timestamp)
	}
	if t.in.all[s.input].redrives {
		return t.streamTime
	}
	return max(t.streamTime, s.r.Timestamp)
}

// parkEntry puts a record aside and finishes it.
func (t *Task) parkEntry(s subject, e *retry.Entry, err *Error) {
	if large := t.encodeAside(s, e); large != nil {
		t.tooLarge(s, err, large)
		return
	}
	if t.putAside(s, e) != nil {
		t.finish(s)
	}
}

// encodeAside prepares a record for the retry store. The error says that it is too large for it.
func (t *Task) encodeAside(s subject, e *retry.Entry) error {
	r := s.r
	p := t.failure.pool
	t.makeWay(e, r)
	p.payload = appendPayload(p.payload[:0], e.Origin, r)
	e.Bytes = len(p.payload) + len(r.Key)
	d := &t.changelogs[t.cfg.Spec.Retries-1]
	return t.refuse(d, 64, len(p.payload)+len(r.Key)+maxMeta, t.rowTime(), nil)
}

// putAside writes a record to the retry store that encodeAside has prepared. The result is nil if the store has failed; the task has stopped then.
func (t *Task) putAside(s subject, e *retry.Entry) *retry.Item {
	p := t.failure.pool
	item := p.index.Park(*e)
	t.begin(-1, -1)
	t.unit.node = "retry store"
	t.putEntry(item, e.Message)
	t.putPayload(e.Origin)
	if !t.end() {
		return nil
	}
	t.failure.counts.PutAside++
	return item
}

func appendPayload(dst []byte, o retry.Origin, r *Record) []byte {
	return retry.AppendPayload(dst, o, &retry.Payload{
		Value: r.Value, NullValue: r.Value == nil, Headers: retryHeaders(r.Headers), Timestamp: r.Timestamp,
	})
}

// putPayload writes the payload that was just made, behind its entry: after a crash an entry without a payload gets it again with its record,
// while a payload without an entry would never be found again. It is called in a unit.
func (t *Task) putPayload(o retry.Origin) {
	p := t.failure.pool
	t.aside()
	p.key = retry.AppendPayloadKey(p.key[:0], o)
	if err := p.store.Put(p.key, p.payload, t.rowTime()); err != nil {
		t.env.Fail("retry store", KindStore, err)
	}
}

// maxMeta bounds what an entry says beside the record's key.
const maxMeta = 8 << 10

// tooLarge ends a record that cannot be put aside.
func (t *Task) tooLarge(s subject, err *Error, large error) {
	if err == nil {
		err = &Error{
			Task: t.cfg.ID, Topic: t.cfg.Spec.Inputs[s.input].Topic, Partition: t.cfg.ID.Partition, Offset: s.r.Offset, Kind: KindProduce, Err: large,
		}
	}
	t.endFresh(s, err, retry.Decision{Verdict: retry.Ended, End: t.failure.set.Then, Class: "too-large", Attempt: err.Attempts})
}

// rowTime is the timestamp of rows of the retry store. Of the wall clock brokers refuse one that runs ahead of theirs, and stream time is of
// records that they have taken.
func (t *Task) rowTime() int64 { return max(t.streamTime, 0) }

// putEntry writes what is known of a record that was put aside. It is called in a unit.
func (t *Task) putEntry(item *retry.Item, message string) {
	p := t.failure.pool
	t.aside()
	item.Wait = max(item.Due-t.now, 0)
	e := item.Entry
	e.Message = message
	p.key = retry.AppendEntryKey(p.key[:0], item.Origin)
	p.row = retry.AppendEntry(p.row[:0], &e)
	if err := p.store.Put(p.key, p.row, t.rowTime()); err != nil {
		t.env.Fail("retry store", KindStore, err)
	}
}

// dropEntry deletes a record that was put aside. It is called in a unit.
func (t *Task) dropEntry(o retry.Origin) {
	p := t.failure.pool
	t.aside()
	p.key = retry.AppendEntryKey(p.key[:0], o)
	err := p.store.Delete(p.key, t.rowTime())
	if err == nil {
		p.key = retry.AppendPayloadKey(p.key[:0], o)
		err = p.store.Delete(p.key, t.rowTime())
	}
	if err != nil {
		t.env.Fail("retry store", KindStore, err)
	}
}

// errNoPayload is about an entry whose payload is gone: the deletion of the entry was cut off by a crash.
var errNoPayload = errors.New("a record that was put aside without its payload")

// readParked reads the record of an entry into memory of its own: the unit that it is run in may write to the store.
func (t *Task) readParked(item *retry.Item) error { return t.readPayload(item.Origin, item.Key) }

func (t *Task) readPayload(o retry.Origin, key []byte) error {
	p := t.failure.pool
	p.key = retry.AppendPayloadKey(p.key[:0], o)
	row, found, err := p.store.Get(p.key)
	if err != nil {
		return err
	}
	if !found {
		return errNoPayload
	}
	p.bytes = append(p.bytes[:0], row.Value...)
	payload, err := retry.DecodePayload(o, p.bytes)
	if err != nil {
		return err
	}
	p.rec = Record{Offset: o.Offset, Timestamp: payload.Timestamp, Key: key, Value: payload.Value, Headers: taskHeaders(payload.Headers)}
	return nil
}

func retryHeaders(h []Header) []retry.Header {
	if len(h) == 0 {
		return nil
	}
	out := make([]retry.Header, len(h))
	for i := range h {
		out[i] = retry.Header(h[i])
	}
	return out
}

func taskHeaders(h []retry.Header) []Header {
	if len(h) == 0 {
		return nil
	}
	out := make([]Header, len(h))
	for i := range h {
		out[i] = Header(h[i])
	}
	return out
}
