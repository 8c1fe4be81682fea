package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// SenderConfig holds the bounds of a Sender. Zero values are replaced by the defaults named here.
type SenderConfig struct {
	BatchBytes  int           // a partition's batch is sent at once from this size on; default 256 KiB
	MaxBatch    int           // no batch is larger, unless a single record is; default 900 kB, below the broker's default message.max.bytes
	MaxRequest  int           // no request is larger, unless a single batch is; default 32 MiB, below the broker's default socket.request.max.bytes
	Linger      time.Duration // how long a smaller batch waits for company; default 5 ms (linger.ms)
	InFlight    int           // requests on the way to one broker; default 5 (max.in.flight.requests.per.connection)
	Backoff     time.Duration // before a retry, doubled up to 1 s; default 50 ms (retry.backoff.ms)
	UnknownFor  time.Duration // how long a missing topic is waited for before its tasks fail; default 10 s
	RequestWait time.Duration // timeout of one produce request at the broker; default 30 s (request.timeout.ms)
}

func (c SenderConfig) withDefaults() SenderConfig {
	c.BatchBytes = cmp.Or(c.BatchBytes, 256<<10)
	c.MaxBatch = cmp.Or(c.MaxBatch, 900_000)
	c.MaxRequest = cmp.Or(c.MaxRequest, 32<<20)
	c.Linger = cmp.Or(c.Linger, 5*time.Millisecond)
	c.InFlight = cmp.Or(c.InFlight, 5)
	c.Backoff = cmp.Or(c.Backoff, 50*time.Millisecond)
	c.UnknownFor = cmp.Or(c.UnknownFor, 10*time.Second)
	c.RequestWait = cmp.Or(c.RequestWait, 30*time.Second)
	return c
}

// Sender turns the effects of all tasks into produce requests. Per partition there is one lane: groups wait in the order in which they
// came, and one batch at a time is on the way, so that retries keep the order by construction; lanes of one broker share requests.
// Batches carry the process's producer id with a sequence per lane (KIP-98), so that a resent batch is not appended twice; those to a changelog
// carry one that belongs to the task, so that what was resent by an owner of the past is not appended at all (see tenure).
type Sender struct {
	cfg   SenderConfig
	now   time.Time
	out   []SenderAction
	lanes map[task.TopicPartition]*lane
	order []*lane // lanes with something to send or on the way, in the order in which they became busy

	pid       int64
	epoch     int16
	havePID   bool
	askedPID  bool
	pidAt     time.Time // when a failed InitProducerID is tried again
	pidTries  int
	lastReq   uint64
	requests  map[uint64]*request
	inFlight  map[int32]int
	owners    map[ownerKey]*owner
	ended     map[task.ID]uint64 // the last epoch of a task that is over
	dropped   uint64             // all epochs up to this one are over
	lease     time.Time          // nothing is sent from then on; zero: no bound
	refreshAt time.Time          // no metadata is asked for before this
	asked     bool               // a refresh is under way
	refreshes int                // in a row that did not help
	wake      time.Time
}

type request struct {
	broker int32
	lanes  []*lane
}

// NewSender returns a Sender without a producer id; the first effects make it ask for one.
func NewSender(cfg SenderConfig) *Sender {
	return &Sender{
		cfg: cfg.withDefaults(), lanes: map[task.TopicPartition]*lane{}, requests: map[uint64]*request{},
		inFlight: map[int32]int{}, owners: map[ownerKey]*owner{}, ended: map[task.ID]uint64{},
	}
}

// SenderEvent is what a Sender is told.
type SenderEvent interface{ senderEvent() }

type (
	// EffectsMade hands over what a task wants to produce. The Sender borrows it until it answers with EffectsAcked or the task is forgotten.
	EffectsMade struct{ Effects *task.Effects }
	// ProducerIDGiven answers AskProducerID.
	ProducerIDGiven struct {
		ID    int64
		Epoch int16
		Err   error
	}
	// Produced answers a Produce. Err is a transport error: nobody knows whether the batches were appended.
	Produced struct {
		Request uint64
		Parts   []ProducedPart
		Err     error
	}
	// LeadersKnown brings fresh metadata: the leader of each partition that is known, -1 for none at the moment.
	LeadersKnown struct {
		Leaders map[task.TopicPartition]int32
		Err     error // the refresh failed; it is asked for again
	}
	// ForgetTask drops what is queued for a task whose epoch is over, and what it still hands over. What is on the way is not waited for.
	ForgetTask struct {
		Task  task.ID
		Epoch uint64
	}
	// DropAll forgets everything of every task, as the end of a lease demands; a new producer id is taken afterwards. Lives up to Epoch are
	// over: what their tasks hand over before they hear of it is dropped.
	DropAll struct{ Epoch uint64 }
	// Leased says until when the process may produce. A process that has slept may run its sender before it learns that its lease is over;
	// what is sent then goes into changelogs that are somebody else's. Before the first one there is no bound.
	Leased struct{ Until time.Time }
	// Tenure says that a task has been granted and is the only one that may write to this partition of a changelog from now on. It precedes
	// the first effects of that life of the task.
	Tenure struct {
		task.TopicPartition
		Generation int32 // in which the task was granted; later owners are granted it in later ones
		End        int64 // of the log, listed after that
	}
	// SenderTick lets time pass.
	SenderTick struct{}
)

func (EffectsMade) senderEvent()     {}
func (ProducerIDGiven) senderEvent() {}
func (Produced) senderEvent()        {}
func (LeadersKnown) senderEvent()    {}
func (ForgetTask) senderEvent()      {}
func (DropAll) senderEvent()         {}
func (Leased) senderEvent()          {}
func (Tenure) senderEvent()          {}
func (SenderTick) senderEvent()      {}

// ProducedPart is the broker's answer for one partition of a Produce.
type ProducedPart struct {
	task.TopicPartition
	Code       kcode.Code
	BaseOffset int64
	Message    string // what the broker said beside the code, if anything
}

// SenderAction is what a Sender wants done.
type SenderAction interface{ senderAction() }

type (
	// Produce sends one request. Its batches' groups are valid until the answer is given to Step.
	Produce struct {
		Request uint64
		Broker  int32
		Timeout time.Duration
		Batches []ProduceBatch
	}
	// AskProducerID asks for a producer id and epoch (InitProducerId without a transactional id).
	AskProducerID struct{}
	// RefreshLeaders asks for the leaders of these topics.
	RefreshLeaders struct{ Topics []string }
	// EffectsAcked says that everything a task handed over up to Seq is in the log. Offsets says where its groups went since the last one.
	EffectsAcked struct {
		Task    task.ID
		Epoch   uint64
		Seq     uint64
		Offsets []GroupOffset
	}
	// ProduceFailed says that the broker refuses for good what a task wants to produce; the task cannot go on.
	ProduceFailed struct {
		Task  task.ID
		Epoch uint64
		Err   *ProduceError
	}
	// DisconnectProduce closes all produce connections; what is on the way is answered with an error, or not at all.
	DisconnectProduce struct{}
	// SenderWake asks for a SenderTick at this time.
	SenderWake struct{ At time.Time }
)

func (Produce) senderAction()           {}
func (AskProducerID) senderAction()     {}
func (RefreshLeaders) senderAction()    {}
func (EffectsAcked) senderAction()      {}
func (ProduceFailed) senderAction()     {}
func (DisconnectProduce) senderAction() {}
func (SenderWake) senderAction()        {}

// ProduceBatch is one batch for one partition.
type ProduceBatch struct {
	task.TopicPartition
	ProducerID    int64
	Epoch         int16
	FirstSequence int32
	Groups        []*task.Group // concatenated, in order
}

// GroupOffset says where the records of a group went: the offset of the first and how many.
type GroupOffset struct {
	task.TopicPartition
	Base  int64
	Count int
}

// Step tells the Sender what happened and returns what is to be done.
func (s *Sender) Step(now time.Time, ev SenderEvent) []SenderAction {
	s.now, s.out = now, s.out[:0]
	switch ev := ev.(type) {
	case EffectsMade:
		s.add(ev.Effects)
	case ProducerIDGiven:
		s.producerID(ev)
	case Produced:
		s.produced(ev)
	case LeadersKnown:
		s.leaders(ev)
	case ForgetTask:
		s.end(ownerKey{ev.Task, ev.Epoch})
	case DropAll:
		s.dropped = max(s.dropped, ev.Epoch)
		s.dropAll()
	case Leased:
		s.leased(ev)
	case Tenure:
		s.begin(ev)
	case SenderTick:
		s.wake = time.Time{}
	}
	s.send()
	return s.out
}

// Idle reports whether nothing waits and nothing is on the way.
func (s *Sender) Idle() bool { return len(s.order) == 0 }

func (s *Sender) do(a SenderAction) { s.out = append(s.out, a) }

func (s *Sender) wakeAt(t time.Time) {
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
		s.do(SenderWake{At: t})
	}
}

func (s *Sender) add(e *task.Effects) {
	if e.Epoch <= s.dropped || e.Epoch <= s.ended[e.Task] {
		return // handed over by a task that had not heard yet that its life is over
	}
	key := ownerKey{e.Task, e.Epoch}
	o := s.owners[key]
	if o == nil {
		o = &owner{key: key}
		s.owners[key] = o
	}
	o.add(e)
	for i := range e.Groups {
		g := &e.Groups[i]
		if len(g.Refs) == 0 {
			continue
		}
		l := s.lane(g.To)
		if !l.busy {
			l.busy = true
			s.order = append(s.order, l)
		}
		l.push(piece{owner: o, seq: e.Seq, group: *g}, s.now)
	}
	s.answer(o)
}

func (s *Sender) lane(to task.TopicPartition) *lane {
	l := s.lanes[to]
	if l == nil {
		l = &lane{to: to, leader: unknownLeader}
		s.lanes[to] = l
	}
	return l
}

func (s *Sender) producerID(ev ProducerIDGiven) {
	s.askedPID = false
	if ev.Err != nil {
		s.pidAt = s.now.Add(min(s.cfg.Backoff<<min(s.pidTries, 5), time.Second))
		s.pidTries++
		return
	}
	s.pidTries = 0
	s.pid, s.epoch, s.havePID = ev.ID, ev.Epoch, true
	for _, l := range s.lanes {
		if !l.owned() {
			l.seq = 0
		}
	}
}

// newProducerID gives up the producer id, as its sequences are in doubt. Batches that were on the way are sent again under the next one,
// which may append them twice: at least once.
func (s *Sender) newProducerID() { s.pid, s.havePID = -1, false }

// end drops what a life of a task has queued, and what it still hands over.
func (s *Sender) end(key ownerKey) {
	s.ended[key.task] = max(s.ended[key.task], key.epoch)
	o := s.owners[key]
	if o == nil {
		return
	}
	o.gone = true
	delete(s.owners, key)
	for _, l := range s.order {
		l.forget(o)
		s.dropOrphan(l)
	}
}

func (s *Sender) dropAll() {
	for key, o := range s.owners {
		o.gone = true
		delete(s.owners, key)
	}
	for _, l := range s.order {
		l.reset()
	}
	clear(s.requests)
	clear(s.inFlight)
	s.order = s.order[:0]
	s.newProducerID()
	s.do(DisconnectProduce{})
}

// send starts what can be started and says when to come back for the rest.
func (s *Sender) send() {
	s.order = slices.DeleteFunc(s.order, func(l *lane) bool {
		l.busy = l.sent != nil || l.bytes > 0 || len(l.queue) > 0
		return !l.busy
	})
	if len(s.order) == 0 {
		return
	}
	if !s.lease.IsZero() && !s.now.Before(s.lease) {
		return // another lease comes, or DropAll
	}
	if !s.havePID {
		s.askProducerID()
		return
	}
	s.ask()
	for s.sendOne() {
	}
}

func (s *Sender) askProducerID() {
	switch {
	case s.askedPID:
	case s.now.Before(s.pidAt):
		s.wakeAt(s.pidAt)
	default:
		s.askedPID = true
		s.do(AskProducerID{})
	}
}

// sendOne sends one request to one broker that has a lane which is due, taking all of that broker's due lanes along.
func (s *Sender) sendOne() bool {
	broker, found := int32(0), false
	for _, l := range s.order {
		if s.ready(l) {
			broker, found = l.leader, true
			break
		}
	}
	if !found {
		return false
	}
	s.lastReq++
	req := &request{broker: broker}
	p := Produce{Request: s.lastReq, Broker: broker, Timeout: s.cfg.RequestWait}
	size := 0
	for _, l := range s.order {
		if l.leader == broker && s.ready(l) {
			next := l.next(s.cfg.MaxBatch)
			if size > 0 && size+next > s.cfg.MaxRequest {
				continue // the request after this one has it
			}
			size += next
			b, w := l.take(s.cfg.MaxBatch), s.writer(l)
			if !l.owned() {
				l.plain = w
			}
			p.Batches = append(p.Batches, ProduceBatch{
				TopicPartition: l.to, ProducerID: w.pid, Epoch: w.epoch, FirstSequence: l.seq, Groups: b.groups,
			})
			b.onWay, b.by = true, w
			req.lanes = append(req.lanes, l)
		}
	}
	s.requests[s.lastReq] = req
	s.inFlight[broker]++
	s.do(p)
	return true
}

// ready reports whether the lane may send now; if time alone is missing it asks to be woken.
func (s *Sender) ready(l *lane) bool {
	if l.leader < 0 || (l.sent != nil && l.sent.onWay) || s.inFlight[l.leader] >= s.cfg.InFlight {
		return false
	}
	if s.now.Before(l.retryAt) {
		s.wakeAt(l.retryAt)
		return false
	}
	if l.sent != nil {
		return true
	}
	if len(l.queue) == 0 {
		return false
	}
	if due := l.since.Add(s.cfg.Linger); l.bytes < s.cfg.BatchBytes && s.now.Before(due) {
		s.wakeAt(due)
		return false
	}
	return true
}
