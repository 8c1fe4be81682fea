package group

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// twoVersions are a topology and one that has one more subtopology, which comes first in its numbers.
func twoVersions() (old, renewed Topology) {
	partitions := map[string]int32{"counts": 2, "lines": 2, "words": 2}
	lines := Subtopology{ID: 0, Topics: []string{"lines"}, Hash: 7}
	words := Subtopology{ID: 1, Topics: []string{"words"}, Stateful: true, Hash: 8}
	old = Topology{Subtopologies: []Subtopology{lines, words}, Partitions: partitions}
	lines.ID, words.ID = 1, 2
	renewed = Topology{Subtopologies: []Subtopology{{ID: 0, Topics: []string{"counts"}, Stateful: true, Hash: 9}, lines, words}, Partitions: partitions}
	return old, renewed
}

func said(t Topology, version int32, claims ...task.ID) JoinedMember {
	x := indexOf(t)
	return JoinedMember{ID: "old", Metadata: assignor.Subscription{
		Topics: x.topics(), Owned: x.ofTasks(claims), Generation: 4,
		UserData: assignor.MemberData{Hashes: x.hashes(), Inputs: x.inputs(), Claims: claims, TopologyVersion: version}.Append(nil),
	}.Append(nil)}
}

// A version of the program with one more subtopology numbers them otherwise. Whoever leads, what runs stays where it is, under the name that
// its owner has for it, and nothing of the input is left to nobody.
func TestVersionsThatNumberTheirSubtopologiesOtherwise(t *testing.T) {
	old, renewed := twoVersions()
	t.Run("the new one leads", func(t *testing.T) {
		running := []task.ID{id(0, 0), id(0, 1), id(1, 0), id(1, 1)}
		member := said(old, 0, running...)
		joins := said(renewed, 1)
		joins.ID = "new"
		std, plans, _ := leads(t, renewed, member, joins)
		require.Equal(t, running, plans["old"].Active)
		require.ElementsMatch(t, indexOf(old).ofTasks(running), std["old"].Partitions)
		require.Equal(t, []task.ID{id(0, 0), id(0, 1)}, plans["new"].Active, "what only it has")
		for _, k := range plans["old"].Marks {
			require.Contains(t, running, k.Task)
		}
		require.Len(t, plans["new"].Learners, len(plans["old"].Marks))
		for _, in := range plans["new"].Learners {
			require.NotZero(t, in.Task.Subtopology, "0 is not what the other one calls 0")
		}
		require.Contains(t, plans["old"].Hashes, assignor.Hash{Subtopology: 0, Sum: 7})
		require.Contains(t, plans["new"].Hashes, assignor.Hash{Subtopology: 1, Sum: 7})
	})
	t.Run("the old one leads", func(t *testing.T) {
		running := []task.ID{id(0, 0), id(0, 1), id(1, 0), id(1, 1), id(2, 0)}
		member := said(renewed, 1, running...)
		joins := said(old, 0)
		joins.ID = "late"
		std, plans, _ := leads(t, old, member, joins)
		require.Subset(t, plans["old"].Active, running[2:], "the numbers of whoever runs it")
		require.ElementsMatch(t, indexOf(renewed).ofTasks(running), std["old"].Partitions)
		require.Equal(t, []task.ID{id(1, 1)}, plans["late"].Active, "words-1, of which there is no owner")
	})
}

func TestNumbersThatAreTheSameAreNotTranslated(t *testing.T) {
	old, _ := twoVersions()
	x := indexOf(old)
	require.Nil(t, x.numbersOf(x.inputs()))
	require.Nil(t, x.numbersOf(nil), "it does not say")
}
