package task

import (
	"math/rand/v2"
	"time"
)

const Name = "task"

type span struct{ Now time.Time }

func allowed(now time.Time, r *rand.Rand) (time.Duration, int) {
	time := span{Now: now} // not the package
	rand := rand.New(rand.NewPCG(1, 2))
	return now.Sub(time.Now), r.IntN(2) + rand.IntN(2)
}
