package assignor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// Whatever comes in, reading does not panic, and what was read is written and read again to the same.
func FuzzMemberData(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(MemberData{}.Append(nil))
	f.Add(sampleMember().Append(nil))
	f.Add([]byte{2, 1, 100, 1, 0, fieldClaims, 3, 0, 1, 5, fieldEnd})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecodeMemberData(b)
		if err != nil {
			require.Empty(t, d.Claims, "half a list of claims is none")
			return
		}
		again, err := DecodeMemberData(d.Append(nil))
		require.NoError(t, err)
		require.Equal(t, setOf(d.Claims), setOf(again.Claims))
		require.Equal(t, setOf(d.Released), setOf(again.Released))
		require.Equal(t, d.Append(nil), again.Append(nil))
	})
}

func FuzzPlanData(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(samplePlan().Append(nil))
	f.Add([]byte{1, 1, fieldMarks, 4, 1, 0, 0, 0, fieldEnd})
	f.Add([]byte{1, 1, fieldNames, 6, 0, 1, 'a', 1, 1, 'b', fieldStandbys, 4, 0, 1, 3, 2, fieldMoves, 6, 0, 1, 0, 2, 1, 0, fieldEnd})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePlanData(b)
		if err != nil {
			return
		}
		again, err := DecodePlanData(p.Append(nil))
		require.NoError(t, err)
		require.Equal(t, setOf(p.Active), setOf(again.Active))
		require.Equal(t, p.Append(nil), again.Append(nil))
	})
}

func FuzzSubscription(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(sampleSubscription().Append(nil))
	f.Add([]byte{0, 3, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSubscription(b)
		if err != nil {
			return
		}
		again, err := DecodeSubscription(s.Append(nil))
		require.NoError(t, err)
		require.Equal(t, s.Append(nil), again.Append(nil))
	})
}

func FuzzAssignment(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(Assignment{Partitions: sampleSubscription().Owned, UserData: []byte{1}}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAssignment(b)
		if err != nil {
			return
		}
		again, err := DecodeAssignment(a.Append(nil))
		require.NoError(t, err)
		require.Equal(t, a.Append(nil), again.Append(nil))
	})
}

// FuzzAssign plans from whatever members could say: it does not panic, no claim gets lost, and every plan passes the check.
func FuzzAssign(f *testing.F) {
	f.Add(sampleMember().Append(nil), MemberData{}.Append(nil), uint8(1))
	f.Add(sampleMember().Append(nil), sampleMember().Append(nil), uint8(2))
	f.Add([]byte{1, 1, fieldClaims, 3, 0, 1, 5, fieldEnd}, []byte(nil), uint8(0))
	f.Fuzz(func(t *testing.T, a, b []byte, standbys uint8) {
		s := State{Subtopologies: []Subtopology{{ID: 0, Partitions: 4, Stateful: true}, {ID: 1, Partitions: 3}}, Policy: Policy{Standbys: int(standbys % 4)}}
		for i, raw := range [][]byte{a, b} {
			d, err := DecodeMemberData(raw)
			if len(d.Claims)+len(d.Released)+len(d.Replicas)+len(d.Unfit) > 10_000 {
				t.Skip("a plan of this size takes long")
			}
			s.Members = append(s.Members, Member{
				ID: string(rune('a' + i)), Process: d.Process, Claims: d.Claims, Released: d.Released, Learned: d.Learned, Unfit: d.Unfit, Replicas: d.Replicas,
				Hashes: d.Hashes, TopologyVersion: d.TopologyVersion, Capacity: d.Capacity, Tags: d.Tags, Draining: d.Draining, Opaque: err != nil,
			})
		}
		p := Assign(s)
		require.Empty(t, p.Degraded)
		runs := setOf(p.Frozen)
		if runs == nil {
			runs = map[task.ID]bool{}
		}
		for _, m := range p.Members {
			for _, id := range m.Active {
				runs[id] = true
			}
		}
		for _, m := range s.Members {
			for _, id := range m.Claims {
				require.True(t, runs[id], "the claim of %s to %s is lost", m.ID, id)
			}
		}
	})
}
