package streams_test

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/streams"
)

// The end comes at each moment of an application's life; Run returns nil, soon.
func TestAppIsCancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	at := func(key kmsg.Key) func(f *faultBed, now func()) {
		return func(f *faultBed, now func()) {
			f.cluster.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
				if f.ours(req) {
					f.cluster.DropControl()
					now()
				}
				return nil, nil, false
			})
		}
	}
	state := func(s streams.State) func(f *faultBed, now func()) {
		return func(f *faultBed, now func()) {
			f.listener.State = func(is streams.State) {
				if is == s {
					now()
				}
			}
		}
	}
	task := func(s string) func(f *faultBed, now func()) {
		return func(f *faultBed, now func()) {
			f.listener.Task = func(_ streams.TaskID, is string) {
				if is == s {
					now()
				}
			}
		}
	}
	for _, tt := range []struct {
		name string
		when func(f *faultBed, now func())
	}{
		{"before it starts", func(_ *faultBed, now func()) { now() }},
		{"starting", state(streams.StateStarting)},
		{"looking for topics", at(kmsg.Metadata)},
		{"making topics", at(kmsg.CreateTopics)},
		{"looking at topics", at(kmsg.DescribeConfigs)},
		{"rebalancing", state(streams.StateRebalancing)},
		{"looking for the coordinator", at(kmsg.FindCoordinator)},
		{"joining", at(kmsg.JoinGroup)},
		{"syncing", at(kmsg.SyncGroup)},
		{"opening", task("opening")},
		{"reading offsets", at(kmsg.OffsetFetch)},
		{"reading the bounds of logs", at(kmsg.ListOffsets)},
		{"restoring", task("restoring")},
		{"restoring, later", func(f *faultBed, now func()) { f.listener.Restore = func(streams.RestoreProgress) { now() } }},
		{"running", task("running")},
		{"all running", state(streams.StateRunning)},
		{"reading", at(kmsg.Fetch)},
		{"taking a producer id", at(kmsg.InitProducerID)},
		{"writing", at(kmsg.Produce)},
		{"committing", at(kmsg.OffsetCommit)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFaultBed(t)
			f.values(f.in, 0, "a b c")
			restore := tt.name == "looking at topics" || tt.name == "restoring" || tt.name == "restoring, later"
			if restore { // something that was there before
				f.start()
				f.r.until("counts", func() bool { return total(f.counts(f.out)) == 3 })
				require.NoError(t, f.r.end())
				f.dir = t.TempDir()
			}
			f.listener = streams.Listener{}
			var once sync.Once
			reached := make(chan struct{})
			tt.when(f, func() { once.Do(func() { close(reached) }) })
			f.start()
			select {
			case <-reached:
			case <-time.After(30 * time.Second):
				require.Fail(t, "it does not come to this")
			}
			began := time.Now()
			require.NoError(t, f.r.end())
			require.Less(t, time.Since(began), 8*time.Second)
			require.Equal(t, streams.StateClosed, f.r.app.State())

			f.listener = streams.Listener{}
			f.start() // whoever comes next finds nothing in the way and nothing lost
			f.r.until("counts", func() bool { return total(f.counts(f.out)) == 3 })
			require.NoError(t, f.r.end())
		})
	}
}

// Everything that runs while the end is under way can be cut short by Close, and many ends leave nothing behind.
func TestAppManyLivesLeaveNothingOpen(t *testing.T) {
	f := newFaultBed(t)
	files := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("there is no /proc here")
		}
		return len(entries)
	}
	f.values(f.in, 0, "a b c")
	f.start()
	f.r.until("counts", func() bool { return total(f.counts(f.out)) == 3 }) // the test's own client has its connections now
	require.NoError(t, f.r.end())
	goroutines, open := runtime.NumGoroutine(), files()
	for i := range 20 {
		f.start()
		if i%2 == 0 {
			f.r.ready()
		}
		require.NoError(t, f.r.end())
	}
	// The brokers need a moment to see that connections are closed.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+3 && files() <= open+3 }, 10*time.Second, 20*time.Millisecond,
		"%d goroutines, then %d; %d files, then %d", goroutines, runtime.NumGoroutine(), open, files())
}
