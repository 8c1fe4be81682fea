package task

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/understudy-streams/understudy/retry"
)

// BenchmarkCommitBesideCalls is how long a commit keeps a task from its records, sealing, metadata and everything that its shell would be told: with no
// call of a worker under way, and with a thousand whose records are done in any order.
func BenchmarkCommitBesideCalls(b *testing.B) {
	for _, calls := range []int{0, 1_000} {
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			y := newYard(b, retry.Parallel(retry.Workers(501), retry.NoBreaker()))
			rng := rand.New(rand.NewPCG(1, 1))
			for n := range calls {
				y.bring(fmt.Sprintf("k%d:v", n))
			}
			took := time.Duration(0)
			for b.Loop() {
				y.bring("k:v")
				y.turn(rng.IntN(len(y.handed)))
				start := time.Now()
				y.commitNow()
				took += time.Since(start)
			}
			if len(y.handed) != calls {
				b.Fatalf("%d calls are under way", len(y.handed))
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/commit")
		})
	}
}
