package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
)

func TestDescribeGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		group, addr := k.group(t, c)
		d, err := c.DescribeGroup(within(t), group)
		require.NoError(t, err)
		require.Contains(t, []string{"Dead", "Empty"}, d.State)
		require.Empty(t, d.Members)

		g := dialGroup(t, c, addr)
		j := join(g, group, "", []byte("metadata"))
		require.NoError(t, j.err)
		require.Equal(t, kcode.None, j.res.Code)
		s, err := g.Sync(SyncRequest{
			Group: group, MemberID: j.res.MemberID, Generation: j.res.Generation, ProtocolType: protocolType, Protocol: protocol,
			Assignments: []SyncAssignment{{MemberID: j.res.MemberID, Assignment: []byte("assignment")}},
		})
		require.NoError(t, err)
		require.Equal(t, kcode.None, s.Code)
		require.Eventually(t, func() bool {
			d, err = c.DescribeGroup(within(t), group)
			return err == nil && d.State == "Stable"
		}, 5*time.Second, 10*time.Millisecond)
		require.Equal(t, GroupDescription{
			Group: group, State: "Stable", ProtocolType: protocolType, Protocol: protocol,
			Members: []DescribedMember{{
				ID: j.res.MemberID, ClientID: "understudy", Host: d.Members[0].Host, Metadata: []byte("metadata"), Assignment: []byte("assignment"),
			}},
		}, d)
		require.NotEmpty(t, d.Members[0].Host)
	})
}
