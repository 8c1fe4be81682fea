package streams_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/internal/badnet"
)

// proxies are goroutines that toxiproxy leaves behind for each connection that a toxic has ended.
var proxies = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
}

// scenario is something that happens to an application on its network, under load.
type scenario struct {
	name    string
	rate    int           // records a second; 300 if 0
	session time.Duration // 6 s if 0
	request time.Duration // bound of a request; 3 s if 0
	lapses  bool          // the membership is lost: what was not committed is processed again
	runs    bool          // and until then it goes on without being able to commit
	dies    bool          // a process ends uncleanly, with the same effect
	absent  bool          // do starts the application itself
	gone    bool          // do has ended the load and the application
	pad     int           // bytes that make each record larger
	do      func(s *stage)
}

const (
	commitEvery    = 100 * time.Millisecond
	defaultSession = 6 * time.Second
)

// stage is where a scenario runs.
type stage struct {
	*ledger
	scenario
	net  *badnet.Net
	app  *ledgerProcess
	dir  string
	rand *rand.Rand
	seed uint64
}

// play runs scenarios on a cluster at once. Each has topics, an application and a network of its own.
func play(t *testing.T, addrs []string, all []scenario) {
	k, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	require.NoError(t, err)
	admin := kadm.NewClient(k)
	t.Cleanup(admin.Close)
	scenarios := map[string]func(t *testing.T){}
	for _, sc := range all {
		scenarios[sc.name] = func(t *testing.T) { newStage(t, addrs, admin, sc).play() }
	}
	require.Len(t, scenarios, len(all), "two have one name")
	atOnce(t, scenarios)
}

func newStage(t *testing.T, addrs []string, admin *kadm.Client, sc scenario) *stage {
	n, err := badnet.New(addrs)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	s := &stage{ledger: newLedger(newBed(t, addrs, nil), admin, sc.pad), scenario: sc, net: n, dir: t.TempDir(), seed: rand.Uint64()}
	s.rand = rand.New(rand.NewPCG(s.seed, 0))                //nolint:gosec // of a test
	for _, topic := range []string{s.in, s.copies, s.outs} { // a busy broker needs seconds to know what its controller has made
		s.until(30*time.Second, topic+" is there", func() bool { return s.length(topic) == 0 })
	}
	return s
}

func (s *stage) play() {
	began := time.Now()
	defer func() { s.t.Logf("seed %d, %.1f s", s.seed, time.Since(began).Seconds()) }()
	if !s.absent {
		s.start()
	}
	s.flow(or(s.rate, 300))
	if !s.absent {
		s.progress(10 * time.Second)
	}
	s.do(s)
	if !s.gone {
		s.progress(30 * time.Second)
		s.end()
		s.closes()
	}
	s.settle()
}

// closes waits until all is processed and ends the application.
func (s *stage) closes() {
	s.t.Helper()
	began := time.Now()
	s.finished(60 * time.Second)
	s.t.Logf("caught up %.1f s after the load ended", time.Since(began).Seconds())
	s.app.closes(15 * time.Second)
	require.Empty(s.t, s.app.said("failed"))
}

// settle checks everything.
func (s *stage) settle() {
	s.t.Helper()
	lost := s.app.lost()
	o := s.check()
	s.t.Logf("%d records; lost its membership %d times; %d copied again, %d counted again; %d lines of log, %v of processor",
		s.total(), lost, o.again, o.counted, len(s.app.said("log ")), s.app.cmd.ProcessState.UserTime()+s.app.cmd.ProcessState.SystemTime())
	if s.dies {
		s.bounded(o, 1+lost)
		return
	}
	if !s.lapses {
		require.Zero(s.t, lost, "the membership is lost though the network was good enough: %v", s.app.said("lost "))
		require.Equal(s.t, outcome{}, o, "nothing is processed twice while the membership lasts")
		s.countsGrow()
		return
	}
	require.NotZero(s.t, lost, "the membership should have been lost")
	s.bounded(o, lost)
}

// bounded checks what has been processed again after so many ends of a membership: what had not been committed, which is the load of a commit
// interval and of the commit itself, and of the lease where an application runs on without its coordinator. Copies of it and counts of it are
// of the same records.
func (s *stage) bounded(o outcome, ends int) {
	s.t.Helper()
	uncommitted := commitEvery + time.Second
	if s.runs {
		uncommitted += or(s.session, defaultSession)
	}
	most := ends * int(float64(or(s.rate, 300))*uncommitted.Seconds())
	require.LessOrEqual(s.t, o.again, most, "copied again")
	require.LessOrEqual(s.t, o.counted, 2*most, "counted again: each of two subtopologies may repeat it")
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// spec is what an application of this stage is told; on the stage's network, or directly.
func (s *stage) spec(dir string, direct bool) ledgerSpec {
	spec := ledgerSpec{
		Brokers: s.addrs, App: s.ledger.app, Dir: dir, In: s.in, Copies: s.copies, Count: s.outs,
		Session: or(s.session, defaultSession), Request: or(s.request, 3*time.Second), Close: 5 * time.Second,
	}
	if !direct {
		spec.Routes = s.net.Routes().String()
	}
	return spec
}

// start starts the application and waits until it runs.
func (s *stage) start() {
	s.t.Helper()
	s.app = spawnLedger(s.t, s.spec(s.dir, false))
	s.until(40*time.Second, "it runs", func() bool { return s.app.state() == "running" })
}

func (s *stage) until(within time.Duration, what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(50 * time.Millisecond) {
		if s.app != nil {
			require.Empty(s.t, s.app.said("ended"), "the application has ended, waiting until %s: %v", what, s.app.said("failed"))
		}
		if time.Now().After(deadline) {
			state := ""
			if s.app != nil {
				state = s.app.state()
			}
			require.Failf(s.t, "it does not come about", "%s, in state %q, %d of %d copied", what, state, s.copied(), s.total())
		}
	}
}

// progress waits until more is copied than now.
func (s *stage) progress(within time.Duration) {
	s.t.Helper()
	began := time.Now()
	var before int64
	s.until(within, "the copies can be counted", func() bool { before = s.copied(); return before >= 0 })
	s.until(within, "more is copied", func() bool { return s.copied() > before })
	s.t.Logf("goes on after %.1f s", time.Since(began).Seconds())
}

// finished waits until the offsets that are committed are the ends of the inputs, so that all is copied and counted.
func (s *stage) finished(within time.Duration) {
	s.t.Helper()
	s.until(within, "all is processed", func() bool {
		done := s.committedNow()
		for _, topic := range []string{s.in, s.ledger.app + "-counts-repartition"} {
			for tp, end := range s.ends(topic) {
				if done[tp] < end {
					return false
				}
			}
		}
		return len(done) == 2*ledgerPartitions
	})
}

// spoil spoils the network for some time and heals it. While it lasts the application is calm: it burns no processor and floods no log.
func (s *stage) spoil(d time.Duration, faults ...badnet.Fault) {
	s.t.Helper()
	for _, f := range faults {
		require.NoError(s.t, s.net.Spoil(f))
	}
	s.calm(d)
	require.NoError(s.t, s.net.Heal())
}

// calm lets time pass and checks that the application does little in it.
func (s *stage) calm(d time.Duration) {
	s.t.Helper()
	cpu, lines, began := s.app.cpu(), len(s.app.said("log ")), time.Now()
	time.Sleep(d) // what happens in it is the test
	took := time.Since(began)
	cpu, lines = s.app.cpu()-cpu, len(s.app.said("log "))-lines
	s.t.Logf("in %.1f s: %v of processor, %d lines of log", took.Seconds(), cpu, lines)
	require.Less(s.t, cpu.Seconds()/took.Seconds(), 0.3, "it burns a processor")
	require.LessOrEqual(s.t, float64(lines), 10+2*took.Seconds(), "it floods the log: %v", s.app.said("log "))
}

// logged are the lines of the log that say something.
func (s *stage) logged(what string) []string {
	return slices.DeleteFunc(s.app.said("log "), func(l string) bool { return !strings.Contains(l, what) })
}
