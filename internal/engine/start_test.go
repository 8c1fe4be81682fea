package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

func TestStartEnsuresTopicsBeforeItJoins(t *testing.T) {
	w := newWorld(t, nil)
	require.Equal(t, Created, w.e.State())
	w.step(Start{})
	require.Equal(t, Starting, w.e.State())
	require.Len(t, acted[EnsureTopics](w), 1)
	require.Empty(t, acted[MemberAction](w))
	w.step(Start{})
	require.Empty(t, acted[EnsureTopics](w), "a second start is none")
	w.topics()
	require.Equal(t, Rebalancing, w.e.State())
	require.IsType(t, group.FindCoordinator{}, only[MemberAction](w).Action)
}

func TestStartTriesTemporaryErrorsAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.step(Start{})
	for _, wait := range []time.Duration{100, 200, 400, 800, 1600, 2000, 2000} {
		wait *= time.Millisecond
		w.step(TopicsReady{Err: errDown, Temporary: true})
		require.Equal(t, Starting, w.e.State())
		w.after(wait - time.Millisecond)
		require.Empty(t, acted[EnsureTopics](w))
		w.after(time.Millisecond)
		require.Len(t, acted[EnsureTopics](w), 1, "after %v", wait)
	}
	require.Len(t, w.notices(NoticeRetry), 7)
	w.step(TopicsReady{Partitions: map[string]int32{"in": 1, "words": 1}, QueueBytes: 123})
	require.Equal(t, Rebalancing, w.e.State())
	require.Equal(t, 123, w.e.cfg.QueueBytes, "the bound that follows from the number of partitions")
}

func TestStartEndsWithPermanentErrors(t *testing.T) {
	w := newWorld(t, nil)
	w.step(Start{})
	missing := &MissingTopicError{Topic: "in"}
	w.step(TopicsReady{Err: missing})
	require.ErrorIs(t, w.done(), missing)
	require.Equal(t, Closed, w.e.State())
	w.step(Tick{})
	require.Empty(t, w.acts, "nothing comes after the end")
}

func TestCloseDuringTheStart(t *testing.T) {
	w := newWorld(t, nil)
	w.step(Start{})
	w.step(Close{})
	require.NoError(t, w.done())
	w.topics()
	require.Empty(t, w.acts)
}

func TestCloseBeforeTheStart(t *testing.T) {
	w := newWorld(t, nil)
	w.step(Close{})
	require.NoError(t, w.done())
}

func TestFatalMembershipEndsTheApplication(t *testing.T) {
	w := running(t, nil, id00)
	w.rebalance()
	w.step(Member{group.JoinDone{Req: w.join, Sent: w.now, Code: kcode.GroupAuthorizationFailed}})
	require.Contains(t, w.told(id00), task.Lost{}, "the membership is over: nothing of the task may be committed")
	require.Empty(t, acted[MemberAction](w), "the others get it when it has stopped, and not before")
	w.closed(id00)
	leave := only[MemberAction](w).Action.(group.SendLeave)
	w.step(Member{group.LeaveDone{Req: leave.Req}})
	require.ErrorIs(t, w.done(), kcode.GroupAuthorizationFailed)
}

func TestEmptyAssignmentRuns(t *testing.T) {
	w := running(t, nil)
	require.True(t, w.e.Ready())
}

func TestAssignmentOfAnUnknownSubtopologyIsNotTaken(t *testing.T) {
	w := newWorld(t, nil)
	w.joinGroup()
	w.assign([]task.ID{{Subtopology: 7}})
	require.Equal(t, Running, w.e.State(), "the member leaves out what it has no form of")
	w.e.open(task.ID{Subtopology: 7}, Active)
	require.Equal(t, Closing, w.e.State())
	require.ErrorContains(t, w.e.err, "all members must run the same topology")
}
