package task

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// ids are what brokers tell of the topic "in", before and after it was made anew.
type ids struct{ before, after retry.TopicID }

var (
	knownIDs   = ids{retry.TopicID{1}, retry.TopicID{2}}
	unknownIDs = ids{}
	learntIDs  = ids{after: retry.TopicID{2}} // the rows are of before there were ids
	allIDs     = map[string]ids{"known": knownIDs, "unknown": unknownIDs, "learnt": learntIDs}
)

func bedOf(t testing.TB, p retry.Policy, id retry.TopicID) *bed {
	f := newFlaky()
	b := &bed{flaky: f, cfg: Config{Spec: f.spec(p), CommitInterval: time.Hour, TopicIDs: []retry.TopicID{id}}}
	b.world = newWorld(t, b.cfg)
	b.work()
	return b
}

// anew deletes the topic "in", with what is committed of it, and begins again with another one.
func (b *bed) anew(id retry.TopicID) {
	delete(b.committed, "in")
	b.cfg.TopicIDs = []retry.TopicID{id}
	b.crash()
}

// rest runs everything that is left, however long it has to wait.
func (b *bed) rest() {
	b.until(200)
	b.commitNow()
	b.until(50)
}

// made is how often something was made of a value.
func (b *bed) made(v string) (n int) {
	for _, out := range b.out["out-0"] {
		if _, of, _ := strings.Cut(out, ":"); strings.HasPrefix(of, v+"@") {
			n++
		}
	}
	return n
}

// The record at the offset of one that is put aside of the former topic is another one: both are run.
func TestRegressionARecordOfATopicMadeAnewIsNotTakenForAnOldOne(t *testing.T) {
	for name, id := range allIDs {
		for _, p := range []retry.Policy{retry.Parallel(steady), retry.KeyOrdered(steady)} {
			t.Run(name+" "+p.Settings().Mode.String(), func(t *testing.T) {
				b := bedOf(t, p, id.before)
				b.fails["x"] = 1
				b.bring("a:x", "b:1")
				b.commitNow()
				require.Equal(t, 1, b.stats().Parked)
				b.anew(id.after)
				b.bring("c:new", "b:2")
				b.rest()
				require.NoError(t, b.owner.Err())
				for _, v := range []string{"x", "1", "new", "2"} {
					require.Equal(t, 1, b.made(v), v)
				}
				require.Zero(t, b.stats().Parked)
				require.EqualValues(t, 2, b.committed["in"].Offset)
			})
		}
	}
}

// Both fail, and lie beside each other for as long as it takes, whoever runs the task then.
func TestRecordsOfTwoTopicsOfOneNameLieBesideEachOther(t *testing.T) {
	for name, id := range allIDs {
		t.Run(name, func(t *testing.T) {
			b := bedOf(t, retry.Parallel(steady), id.before)
			b.fails["x"], b.fails["new"] = -1, -1
			b.bring("a:x")
			b.commitNow()
			b.anew(id.after)
			b.bring("a:new")
			b.commitNow()
			require.Equal(t, 2, b.stats().Parked)
			b.crash()
			require.Equal(t, 2, b.stats().Parked)
			require.Zero(t, b.stats().Inert)
			b.fails["x"], b.fails["new"] = 0, 0
			b.rest()
			require.Equal(t, 1, b.made("x"))
			require.Equal(t, 1, b.made("new"))
			require.Zero(t, b.stats().Parked)
		})
	}
}

// What is put aside of the former topic came before all that the present one has.
func TestKeysKeepTheirOrderOverATopicThatIsMadeAnew(t *testing.T) {
	for name, id := range allIDs {
		t.Run(name, func(t *testing.T) {
			b := bedOf(t, retry.KeyOrdered(steady), id.before)
			b.fails["x"] = 2
			b.bring("a:x", "a:y")
			b.commitNow()
			b.anew(id.after)
			b.runs = nil
			b.bring("a:new", "b:else", "a:newer")
			b.rest()
			run := slices.DeleteFunc(slices.Clone(b.runs), func(v string) bool { return v == "else" })
			want := []string{"x", "x", "y", "new", "newer"}
			if id != knownIDs { // what comes at their offsets is what tells the two topics apart
				require.ElementsMatch(t, want, run)
				return
			}
			require.Equal(t, want, run)
		})
	}
}

// The former topic was longer: what was put aside of its end waits for no record that may never come.
func TestRecordsPutAsideBeyondTheEndOfATopicMadeAnew(t *testing.T) {
	b := bedOf(t, retry.Parallel(steady), knownIDs.before)
	b.fails["x"] = 1
	b.bring("a:1", "a:2", "a:3", "a:x")
	b.commitNow()
	b.anew(knownIDs.after)
	require.Zero(t, b.stats().Inert)
	b.rest()
	require.Equal(t, 1, b.made("x"))

	// Where no id is known they run when the topic comes to their place, and swallow nothing there.
	b = bedOf(t, retry.Parallel(steady), retry.TopicID{})
	b.fails["x"] = 1
	b.bring("a:1", "a:2", "a:3", "a:x")
	b.commitNow()
	b.anew(retry.TopicID{})
	require.Equal(t, 1, b.stats().Inert)
	b.bring("b:1", "b:2", "b:3", "b:4", "b:5")
	b.rest()
	require.Equal(t, 1, b.made("x"))
	require.Equal(t, 1, b.made("4"))
}

// A row of a newer version is the former topic's as well, and stays.
func TestEntryOfANewerVersionOfATopicMadeAnew(t *testing.T) {
	for _, id := range []ids{knownIDs, learntIDs} {
		b := bedOf(t, retry.Parallel(steady), id.before)
		b.fails["x"] = -1
		b.bring("a:x")
		b.commitNow()
		o := parkedAt(0)
		o.ID = id.before
		key := retry.AppendEntryKey(nil, o)
		row := b.ofNewer(key)
		b.anew(id.after)
		b.bring("a:new")
		b.rest()
		require.Equal(t, 1, b.made("new"))
		require.Equal(t, 1, b.stats().Newer)
		kept, found := b.row(key)
		require.True(t, found)
		require.Equal(t, row, kept)
	}
}

// A crash comes before what is deleted under the old origin is deleted, and the same is done again.
func TestAnEntryIsSetApartOnce(t *testing.T) {
	b := bedOf(t, retry.Parallel(steady), retry.TopicID{})
	b.fails["x"] = -1
	b.bring("a:x")
	b.commitNow()
	key, payload := retry.AppendEntryKey(nil, parkedAt(0)), retry.AppendPayloadKey(nil, parkedAt(0))
	entry, _ := b.row(key)
	body, _ := b.row(payload)
	b.anew(retry.TopicID{})
	b.bring("a:new")
	b.commitNow()
	_, found := b.row(key)
	require.False(t, found, "it lies under another origin")
	require.Equal(t, 1, b.stats().Parked)
	back := []statestore.Change{{Key: key, Value: entry}, {Key: payload, Value: body}}
	require.NoError(t, b.stores.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Store: 1, Changes: back, Position: -1}}}))
	b.anew(retry.TopicID{})
	require.Equal(t, 2, b.stats().Parked)
	b.bring("a:new")
	b.commitNow()
	require.Equal(t, 1, b.stats().Parked)
	b.fails["x"] = 0
	b.rest()
	require.Equal(t, 1, b.made("x"))
	require.Zero(t, b.stats().Parked)
}

// An entry without a payload, as a crash came between the two, is not that of a record with another key.
func TestWhatIsLeftOfAnEntryIsNotTheRecordOfAnotherTopic(t *testing.T) {
	b := bedOf(t, retry.Parallel(steady), retry.TopicID{})
	b.fails["x"] = -1
	b.bring("a:x")
	b.commitNow()
	gone := []statestore.Change{{Key: retry.AppendPayloadKey(nil, parkedAt(0))}}
	require.NoError(t, b.stores.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Store: 1, Changes: gone, Position: -1}}}))
	b.anew(retry.TopicID{})
	b.bring("b:new")
	b.rest()
	require.Equal(t, 1, b.made("new"))
	require.Contains(t, b.outs(), "b:new@", "under its own key")
	require.Zero(t, b.stats().Parked)
}

// Workers come to it as well, also while a record of the old one's key runs.
func TestWorkersTakeNoRecordOfATopicMadeAnewForAnOldOne(t *testing.T) {
	for name, id := range allIDs {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, retry.KeyOrdered(steady, retry.Workers(2)), func(c *Config) { c.TopicIDs = []retry.TopicID{id.before} })
			y.fails["x"] = 1
			y.bring("b:1", "a:x")
			y.drain(false)
			y.commitNow()
			delete(y.committed, "in")
			y.cfg.TopicIDs = []retry.TopicID{id.after}
			y.crash()
			y.handed = nil
			y.hireAll()
			y.bring("a:0", "c:new", "a:2")
			y.drain(true)
			y.pass(50)
			require.NoError(t, y.owner.Err())
			for _, v := range []string{"1", "x", "0", "new", "2"} {
				require.Equal(t, 1, y.made(v), v)
			}
			require.EqualValues(t, 3, func() int64 { y.commitNow(); return y.committed["in"].Offset }())
		})
	}
}

// The second path of a gap comes to offsets of the former topic as the main one does.
func TestAGapTakesNoRecordOfATopicMadeAnewForAnOldOne(t *testing.T) {
	for name, id := range allIDs {
		t.Run(name, func(t *testing.T) {
			b := bedOf(t, retry.Parallel(steady), id.before)
			breakOff(b)
			b.crash()
			b.fails["70"] = 1
			b.feed(ofGap, log(70, 72))
			b.commitNow()
			require.Equal(t, 1, b.stats().Parked)
			breakOff(b)
			b.cfg.TopicIDs = []retry.TopicID{id.after}
			b.crash()
			require.NotNil(t, b.owner.t.gap(0))
			b.feed(ofGap, batch(120, rec(70, "k", "new", 1), rec(71, "k", "71", 1071)))
			b.rest()
			require.Equal(t, 1, b.made("new"))
			require.Equal(t, 1, b.made("70"))
		})
	}
}

// Whatever happens between, everything is run that was put aside, and everything that a topic has had while it was there.
func TestAnyHistoryOfTopicsMadeAnewLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ordered, known := rapid.Bool().Draw(t, "ordered"), rapid.Bool().Draw(t, "known")
		p := retry.Parallel(steady, retry.Crashes(1000))
		if ordered {
			p = retry.KeyOrdered(steady, retry.Crashes(1000))
		}
		f := newFlaky()
		b := &bed{flaky: f, cfg: Config{Spec: f.spec(p), CommitInterval: time.Hour}}
		b.world = &world{t: t, now: epoch0, mem: newMemory()}
		var anew byte
		id := func() []retry.TopicID {
			if known {
				return []retry.TopicID{{1, anew}}
			}
			return nil
		}
		b.cfg.TopicIDs = id()
		b.start(b.cfg)
		var values []string          // all
		var present []Record         // the topic as it is now
		var until = map[string]int{} // where each value has its place in the history
		bring := func(n int) {
			from := b.owner.t.in.all[0].end
			to := min(from+int64(n), int64(len(present)))
			if from < to {
				b.feed(0, batch(to, present[from:to]...))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(t, "n") {
					v := fmt.Sprint("v", len(values))
					values = append(values, v)
					until[v] = int(anew)
					f.fails[v] = rapid.IntRange(0, 3).Draw(t, "fails")
					off := int64(len(present))
					present = append(present, rec(off, rapid.SampledFrom([]string{"a", "b", "-"}).Draw(t, "key"), v, 1000+off))
				}
			},
			"bring":  func(t *rapid.T) { bring(rapid.IntRange(1, 4).Draw(t, "n")) },
			"commit": func(*rapid.T) { b.commitNow() },
			"time":   func(t *rapid.T) { b.until(rapid.IntRange(1, 4).Draw(t, "steps")) },
			"crash":  func(*rapid.T) { b.crash() },
			"unsaid": func(*rapid.T) { // the rows are there, the offsets are not
				before := b.committed["in"]
				b.commitNow()
				b.committed["in"] = before
				b.crash()
			},
			"anew": func(t *rapid.T) {
				for range 5 { // what nobody has read of a topic is gone with it
					bring(len(present))
					b.until(1)
					b.commitNow()
				}
				require.EqualValues(t, len(present), b.owner.t.in.all[0].position)
				anew++
				present = nil
				b.cfg.TopicIDs = id()
				delete(b.committed, "in")
				b.crash()
			},
			"": func(t *rapid.T) { require.NoError(t, b.owner.Err()) },
		})
		for range 5 {
			bring(len(present))
			b.until(100)
			b.commitNow()
		}
		if !known { // those at the end of a longer topic wait for the present one to come there
			for len(present) < len(values)+1 {
				present = append(present, rec(int64(len(present)), "z", fmt.Sprint("z", len(present)), 1))
			}
			for range 5 {
				bring(len(present))
				b.until(100)
				b.commitNow()
			}
		}
		for _, v := range values {
			require.Positive(t, b.made(v), "%s of topic %d was lost", v, until[v])
		}
		require.Zero(t, b.stats().Parked)
	})
}
