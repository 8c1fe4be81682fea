package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/task"
)

const groupName = "app"

// epoch is when a run begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is everything in a run.
type world struct {
	*virtual.World
	cfg       Config
	mood      mood
	failing   failing
	recovery  recovering
	hosts     []*host
	source    source
	oracle    oracle
	trace     virtual.Trace
	healed    bool // no more faults
	ending    bool // nothing is started any more
	failed    error
	concerned parts // by what failed
	faults    []string
	seen      Tally
	whole     time.Time // when it was whole after the faults
	version   int32     // of the program that processes start with
	plans     int       // that are being carried out
}

// Run plays one seed. What led to a failure is kept only when the seed is played again, which is the same run to the last event.
func Run(cfg Config) Result {
	cfg = cfg.withDefaults()
	r := play(cfg, cfg.Trace == nil)
	if r.Err == nil || cfg.Trace != nil {
		return r
	}
	again := play(cfg, false)
	if again.Hash != r.Hash || again.Events != r.Events {
		again.Err = fmt.Errorf("%w; and played again it is another run, with this end: %w", r.Err, cmp.Or(again.Err, errHeld))
	}
	return again
}

var errHeld = errors.New("all held")

func play(cfg Config, blind bool) Result {
	w := newWorld(cfg)
	w.trace.Blind = blind
	w.begin()
	w.loop()
	return w.result()
}

func (w *world) result() Result {
	r := Result{
		Seed: w.cfg.Seed, Err: w.failed, Hash: w.trace.Hash, Events: w.Events, Virtual: w.Now.Sub(epoch), Faults: w.faults, Seen: w.seen, Moves: w.oracle.moves,
	}
	if !w.whole.IsZero() {
		r.Healed = w.whole.Sub(epoch.Add(faultTime))
	}
	if w.failed != nil {
		r.Concerned, r.Around, r.Trace = partNames(w.concerned), w.trace.Last(60, w.concerned), w.trace.Last(120, 0)
	}
	return r
}

func newWorld(cfg Config) *world {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x73696d))
	w := &world{
		cfg: cfg, mood: newMood(rng, cfg.Calm), trace: newTrace(cfg.Trace),
	}
	w.failing, w.recovery = newFailing(cfg, &w.mood), newRecovering(cfg, &w.mood)
	w.oracle.init(w)
	topics := map[string]modelbroker.TopicConfig{}
	for _, name := range []string{topicIn, topicWords, topicOut, topicDead} {
		topics[name] = modelbroker.TopicConfig{Partitions: cfg.Parts}
	}
	for _, name := range []string{topicCounts, topicParked} {
		topics[name] = modelbroker.TopicConfig{Partitions: cfg.Parts, Configs: map[string]string{"cleanup.policy": "compact"}}
	}
	settle := time.Duration(rng.Int64N(int64(20*time.Millisecond) + 1))
	w.World = virtual.New(virtual.Config{
		Begin: epoch, Rand: rng, Pace: w.mood.Pace, Observe: network{w},
		Brokers: modelbroker.Config{
			Brokers: cfg.Brokers, Topics: topics, Seed: cfg.Seed, Failover: 2 * time.Second, Load: w.mood.load,
			LeaderSettle: settle, MinSession: time.Second, Committed: w.oracle.committed, Lends: true,
		},
	})
	for i := range cfg.Instances + spare {
		h := newHost(w, i)
		h.wanted = i < cfg.Instances
		w.hosts = append(w.hosts, h)
	}
	w.source.init(w)
	return w
}

func (w *world) begin() {
	for _, h := range w.hosts {
		w.After(w.UpTo(2*time.Second), nil, h.start)
	}
	w.preload()
	w.source.begin()
	w.planFaults()
	w.After(faultTime, nil, w.heal)
	if w.cfg.breaks > 0 {
		w.After(w.cfg.breaks, nil, func() { w.violated("a test wants it to fail") })
	}
}

// loop takes the next event, of the queue or of the broker, until nothing is left, something does not hold, or the end is reached.
func (w *world) loop() {
	for w.failed == nil && !w.oracle.over && w.Next() {
		if w.Events > mostEvents {
			w.violated("it comes to no end")
		}
	}
}

// mostEvents is far more than any run has.
const mostEvents = 1 << 20

// violated notes the first thing that does not hold; the run ends with it.
func (w *world) violated(format string, args ...any) { w.violatedOn(0, format, args...) }

func (w *world) violatedAt(tp task.TopicPartition, format string, args ...any) {
	on := partOf(tp)
	if tp.Topic != topicIn {
		on = partsOf(task.ID{Subtopology: 1, Partition: tp.Partition})
	}
	w.violatedOn(on, format, args...)
}

func (w *world) violatedTask(id task.ID, format string, args ...any) {
	w.violatedOn(partsOf(id), format, args...)
}

func (w *world) violatedOn(on parts, format string, args ...any) {
	if w.failed == nil {
		w.failed, w.concerned = fmt.Errorf("at %v: "+format, append([]any{w.Now.Sub(epoch)}, args...)...), on
	}
}
