package streams_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/badnet"
	"github.com/understudy-streams/understudy/internal/realkafka"
)

func silence(way badnet.Way) badnet.Fault {
	return badnet.Fault{Kind: "timeout", Way: way, Values: map[string]int{"timeout": 0}}
}

func latency(ms, jitter int) badnet.Fault {
	return badnet.Fault{Kind: "latency", Way: badnet.Down, Values: map[string]int{"latency": ms, "jitter": jitter}}
}

func bandwidth(kilobytes int) badnet.Fault {
	return badnet.Fault{Kind: "bandwidth", Values: map[string]int{"rate": kilobytes}}
}

func limit(way badnet.Way, bytes int) badnet.Fault {
	return badnet.Fault{Kind: "limit_data", Way: way, Values: map[string]int{"bytes": bytes}}
}

// What a network between the application and its brokers can do, on real sockets. No process dies, so as long as the membership lasts each
// record is processed once, exactly. What an outage costs of a processor is measured and lines are to be fast again at once, so no other test of
// this package runs meanwhile.
func TestAppOnABadNetwork(t *testing.T) {
	notShort(t)
	atOnce(t, map[string]func(t *testing.T){"of one broker": networkOfOneBroker, "of three brokers": networkOfThreeBrokers})
}

func networkOfOneBroker(t *testing.T) {
	play(t, realkafka.Shared(t).Addrs(), []scenario{
		{name: "latency", session: 10 * time.Second, do: func(s *stage) { s.goesOn(8*time.Second, latency(500, 300)) }},
		{name: "10 kB a second", rate: 30, do: func(s *stage) { s.goesOn(12*time.Second, bandwidth(10)) }},
		{name: "50 kB a second", rate: 120, do: func(s *stage) { s.goesOn(8*time.Second, bandwidth(50)) }},
		{name: "a backlog on a slow line", pad: 2000, rate: 30, request: 2 * time.Second, do: slowBacklog},
		{name: "small packets", do: func(s *stage) {
			s.goesOn(8*time.Second, badnet.Fault{Kind: "slicer", Values: map[string]int{"average_size": 9, "size_variation": 7, "delay": 200}})
		}},
		{name: "connections are slow to close", do: func(s *stage) {
			require.NoError(s.t, s.net.Spoil(badnet.Fault{Kind: "slow_close", Values: map[string]int{"delay": 1000}}))
			s.cutAtRandom(5 * time.Second)
			require.NoError(s.t, s.net.Heal())
		}},
		{name: "connections are reset", session: 10 * time.Second, do: func(s *stage) {
			require.NoError(s.t, s.net.Spoil(badnet.Fault{Kind: "reset_peer", Of: 1e-9})) // who has it in his chain resets where others would close
			s.cutAtRandom(8 * time.Second)
			require.NoError(s.t, s.net.Heal())
		}},
		{name: "some connections end", session: 10 * time.Second, do: func(s *stage) {
			for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
				require.NoError(s.t, s.net.Spoil(badnet.Fault{Kind: "timeout", Of: 0.4, Values: map[string]int{"timeout": 1}}))
				s.pause(20, 50)
				require.NoError(s.t, s.net.Heal())
				s.pause(50, 700)
			}
		}},
		{name: "connections end within requests", session: 15 * time.Second, do: func(s *stage) { s.limits(badnet.Up) }},
		{name: "connections end within answers", session: 15 * time.Second, do: func(s *stage) { s.limits(badnet.Down) }},

		{name: "silence for less than a session", session: 10 * time.Second, do: func(s *stage) { s.spoil(3*time.Second, silence(badnet.Both)) }},
		{name: "silence for more than a session", lapses: true, do: func(s *stage) {
			s.spoil(10*time.Second, silence(badnet.Both))
			require.NotEmpty(s.t, s.logged("fetch from broker"), "an outage is said")
		}},
		{name: "requests vanish for less than a session", session: 10 * time.Second, do: func(s *stage) { s.spoil(3*time.Second, silence(badnet.Up)) }},
		{name: "requests vanish for more than a session", lapses: true, do: func(s *stage) { s.spoil(10*time.Second, silence(badnet.Up)) }},
		{name: "answers vanish for less than a session", session: 10 * time.Second, do: func(s *stage) { s.spoil(3*time.Second, silence(badnet.Down)) }},
		{name: "answers vanish for more than a session", lapses: true, do: func(s *stage) { s.spoil(10*time.Second, silence(badnet.Down)) }},
		{name: "all arrives late, within a session", session: 10 * time.Second, do: func(s *stage) { s.spoil(3*time.Second, badnet.Fault{Kind: badnet.Held}) }},
		{name: "all arrives late, after a session", lapses: true, do: func(s *stage) { s.spoil(10*time.Second, badnet.Fault{Kind: badnet.Held}) }},
		{name: "requests arrive late, after a session", lapses: true, do: func(s *stage) {
			s.spoil(10*time.Second, badnet.Fault{Kind: badnet.Held, Way: badnet.Up})
		}},
		{name: "connections are refused for less than a session", session: 10 * time.Second, do: func(s *stage) { s.refuse(3 * time.Second) }},
		{name: "connections are refused for more than a session", lapses: true, do: func(s *stage) {
			s.refuse(10 * time.Second)
			// Which of the two it is depends on what was on its way.
			require.NotEmpty(s.t, append(s.logged("produce to broker"), s.logged("leaders of sink topics")...), "an outage is said")
		}},

		{name: "refused at the start", absent: true, do: func(s *stage) {
			require.NoError(s.t, s.net.Refuse())
			s.app = spawnLedger(s.t, s.spec(s.dir, false))
			s.calm(4 * time.Second)
			require.NoError(s.t, s.net.Accept())
			s.until(20*time.Second, "it runs", func() bool { return s.app.state() == "running" })
		}},
		{name: "silence at the start", absent: true, do: func(s *stage) {
			require.NoError(s.t, s.net.Spoil(silence(badnet.Both)))
			s.app = spawnLedger(s.t, s.spec(s.dir, false))
			s.calm(4 * time.Second)
			require.NoError(s.t, s.net.Heal())
			s.until(20*time.Second, "it runs", func() bool { return s.app.state() == "running" })
		}},
		{name: "closed in silence", dies: true, do: func(s *stage) {
			s.closeAndStartAgain(func() { require.NoError(s.t, s.net.Spoil(silence(badnet.Both))) })
		}},
		{name: "closed while refused", dies: true, do: func(s *stage) { s.closeAndStartAgain(func() { require.NoError(s.t, s.net.Refuse()) }) }},
		{name: "closed at the start, in silence", absent: true, do: func(s *stage) {
			require.NoError(s.t, s.net.Spoil(silence(badnet.Both)))
			s.app = spawnLedger(s.t, s.spec(s.dir, false))
			s.calm(time.Second)
			s.app.closes(8 * time.Second)
			require.NoError(s.t, s.net.Heal())
			s.start()
		}},

		{name: "a process that was stopped", lapses: true, do: func(s *stage) { s.zombie(stopped) }},
		{name: "a process that was cut off", lapses: true, do: func(s *stage) { s.zombie(cutOff(silence(badnet.Both))) }},
		{name: "a process whose requests arrive late", lapses: true, do: func(s *stage) {
			s.zombie(cutOff(badnet.Fault{Kind: badnet.Held, Way: badnet.Up}))
		}},
	})
}

// pause waits for some milliseconds between two bounds.
func (s *stage) pause(least, most int) {
	time.Sleep(time.Duration(least+s.rand.IntN(most-least)) * time.Millisecond) // faults come at random times
}

// goesOn spoils the network for some time in which the application makes progress all the same.
func (s *stage) goesOn(d time.Duration, f badnet.Fault) {
	s.t.Helper()
	require.NoError(s.t, s.net.Spoil(f))
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.progress(10 * time.Second)
		s.pause(500, 1000)
	}
	require.NoError(s.t, s.net.Heal())
}

func (s *stage) cutAtRandom(d time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		require.NoError(s.t, s.net.Cut())
		s.pause(20, 900)
	}
}

// limits ends all connections after some more bytes, again and again: within the length of a frame, its header, a batch.
func (s *stage) limits(way badnet.Way) {
	s.t.Helper()
	counts := []int{1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 14, 17, 21, 26, 34, 40, 55, 61, 70, 89, 100, 144, 200, 233, 377, 500, 610, 987, 1597, 2584, 4181, 6765, 10946}
	s.rand.Shuffle(len(counts), func(i, j int) { counts[i], counts[j] = counts[j], counts[i] })
	for i, n := range counts {
		require.NoError(s.t, s.net.Spoil(limit(way, n)))
		s.pause(50, 400)
		require.NoError(s.t, s.net.Heal())
		if i%8 == 7 {
			s.progress(20 * time.Second)
		}
	}
}

func (s *stage) refuse(d time.Duration) {
	s.t.Helper()
	require.NoError(s.t, s.net.Refuse())
	s.calm(d)
	require.NoError(s.t, s.net.Accept())
}

// slowBacklog has more waiting than passes the line in the time that a request has: it must get through all the same.
func slowBacklog(s *stage) {
	require.NoError(s.t, s.net.Spoil(bandwidth(100)))
	s.writeAll(150)
	began := s.total()
	s.until(40*time.Second, "the backlog is through", func() bool { return s.copied() >= began })
	require.NoError(s.t, s.net.Heal())
}

// closeAndStartAgain closes the application while the network fails, and goes on with another process when it has healed.
func (s *stage) closeAndStartAgain(fail func()) {
	s.t.Helper()
	fail()
	time.Sleep(500 * time.Millisecond) // so that something is on its way
	s.app.closes(8 * time.Second)
	require.NoError(s.t, s.net.Heal())
	_ = s.net.Cut() // and takes connections again
	s.start()
}

// zombie takes the first process out of the group while another takes over, and lets it come back.
func (s *stage) zombie(out func(s *stage, d time.Duration)) {
	second := spawnLedger(s.t, s.spec(s.t.TempDir(), true))
	s.until(20*time.Second, "the second process runs", func() bool { return second.state() == "running" })
	s.progress(10 * time.Second)
	out(s, 12*time.Second)
	s.until(20*time.Second, "the first process is back", func() bool { return s.app.lost() > 0 && s.app.state() == "running" })
	s.progress(10 * time.Second)
	second.closes(8 * time.Second)
	require.Zero(s.t, second.lost())
}

func stopped(s *stage, d time.Duration) {
	s.app.signal(syscall.SIGSTOP)
	time.Sleep(d / 2)
	s.progress(10 * time.Second) // the other has taken over
	time.Sleep(d / 2)
	s.app.signal(syscall.SIGCONT)
}

func cutOff(f badnet.Fault) func(s *stage, d time.Duration) {
	return func(s *stage, d time.Duration) {
		require.NoError(s.t, s.net.Spoil(f))
		time.Sleep(d / 2)
		s.progress(10 * time.Second)
		time.Sleep(d / 2)
		require.NoError(s.t, s.net.Heal())
	}
}
