package task

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStreamTimeMetadata(t *testing.T) {
	require.Equal(t, "AgAAAAAAAAPo", EncodeStreamTime(1000), "as Kafka Streams 3.x writes it")
	b64 := func(b ...byte) string { return base64.StdEncoding.EncodeToString(b) }
	for _, c := range []struct {
		name, metadata string
		want           int64
	}{
		{"ours", EncodeStreamTime(1_234_567_890_123), 1_234_567_890_123},
		{"zero", EncodeStreamTime(0), 0},
		{"none yet", EncodeStreamTime(-1), -1},
		{"version 1", b64(1, 0, 0, 0, 0, 0, 0, 3, 232), 1000},
		{"processor metadata after it", b64(2, 0, 0, 0, 0, 0, 0, 3, 232, 0, 0, 0, 1, 0, 0, 0, 1, 'p', 0, 0, 0, 0, 0, 0, 0, 9), 1000},
		{"broken processor metadata after it", b64(2, 0, 0, 0, 0, 0, 0, 3, 232, 255), 1000},
		{"empty", "", -1},
		{"not base64", "hello, world", -1},
		{"another version", b64(3, 0, 0, 0, 0, 0, 0, 3, 232), -1},
		{"too short", b64(2, 0, 0, 0), -1},
		{"negative", b64(2, 128, 0, 0, 0, 0, 0, 3, 232), -1},
		{"too long", strings.Repeat("AgAA", 2000), -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ms, known := DecodeStreamTime(c.metadata)
			require.Equal(t, c.want, ms)
			require.Equal(t, c.want >= 0, known)
		})
	}
}

func FuzzDecodeStreamTime(f *testing.F) {
	f.Add("")
	f.Add("AgAAAAAAAAPo")
	f.Add("AQAAAAAAAAPo")
	f.Add("AgAAAAAAAAPoAAAAAQ==")
	f.Add("////")
	f.Fuzz(func(t *testing.T, s string) {
		ms, known := DecodeStreamTime(s)
		if known != (ms >= 0) || !known && ms != -1 {
			t.Fatalf("%d, %v", ms, known)
		}
		if again, ok := DecodeStreamTime(EncodeStreamTime(ms)); again != ms || ok != known {
			t.Fatalf("%d became %d", ms, again)
		}
	})
}
