package kafka

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABrokerCannotKeepTheClientComputing(t *testing.T) {
	s, nonce := greeted(t, ScramSHA256)
	_, err := s.Step("r=" + nonce + "x,s=c2FsdA==,i=2147483647")
	require.ErrorContains(t, err, "asks for 2147483647 SCRAM iterations, at most 1048576")

	s, nonce = greeted(t, ScramSHA256)
	_, err = s.Step("r=" + nonce + "x,s=c2FsdA==,i=16384")
	require.NoError(t, err)
}

// greeted is a conversation whose first message was sent, and the nonce in it.
func greeted(t testing.TB, m Mechanism) (*scramClient, string) {
	t.Helper()
	s := &scramClient{mechanism: m}
	require.NoError(t, s.Begin("user", "password", ""))
	hello, err := s.Step("")
	require.NoError(t, err)
	_, nonce, found := strings.Cut(hello, ",r=")
	require.True(t, found)
	return s, nonce
}

// FuzzScram is a broker that does not know the password: whatever it says after the client's nonce, and then, it is not believed.
func FuzzScram(f *testing.F) {
	f.Add("x,s=c2FsdA==,i=4096", "v=c2FsdA==", false)
	f.Add("x,s=c2FsdA==,i=4096", "e=other-error", true)
	f.Add(",m=1,s=,i=4096", "v=", true)
	f.Add("x,s=c2FsdA==,i=2147483647", "", false)
	f.Fuzz(func(t *testing.T, challenge, final string, sha512 bool) {
		m := ScramSHA256
		if sha512 {
			m = ScramSHA512
		}
		s, nonce := greeted(t, m)
		challenge = "r=" + nonce + challenge
		if n := iterations(challenge); n > 16384 && n <= maxIterations {
			return // allowed, and too slow to be tried often
		}
		if _, err := s.Step(challenge); err != nil {
			require.False(t, s.conv.Valid())
			return
		}
		_, err := s.Step(final)
		require.Error(t, err)
		require.False(t, s.conv.Valid())
	})
}
