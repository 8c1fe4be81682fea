package retry

import (
	"math"
	"time"
)

// wait is the back-off after the failed attempt n, from 1. The random part makes it shorter, never longer than Most.
func (s Settings) wait(n int, random uint64) time.Duration {
	nominal := s.nominal(n)
	unit := float64(random>>11) / (1 << 53) // 0 to below 1
	return max(nominal-time.Duration(float64(nominal)*s.Jitter*unit), 0)
}

// nominal is the back-off without its random part. It is reckoned in floating point, which has room for any power: what is too large for a
// Duration, or infinite, is beyond Most.
func (s Settings) nominal(n int) time.Duration {
	if s.First <= 0 {
		return 0
	}
	wait := float64(s.First) * math.Pow(s.Factor, float64(n-1))
	if wait < float64(s.Most) {
		return time.Duration(wait)
	}
	return s.Most
}

// later adds a wait to a time in ms. A part of a millisecond is a whole one, so that nothing comes early; what is past the end of time is
// the end of time.
func later(now int64, wait time.Duration) int64 {
	if wait <= 0 {
		return now
	}
	ms := int64((wait-1)/time.Millisecond) + 1
	if now > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return now + ms
}
