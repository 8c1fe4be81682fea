package assignor

import (
	"testing"

	"github.com/stretchr/testify/require"
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
	})
}

func FuzzPlanData(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(samplePlan().Append(nil))
	f.Add([]byte{1, 1, fieldMarks, 4, 1, 0, 0, 0, fieldEnd})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePlanData(b)
		if err != nil {
			return
		}
		again, err := DecodePlanData(p.Append(nil))
		require.NoError(t, err)
		require.Equal(t, setOf(p.Active), setOf(again.Active))
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
