package task

import "math/rand/v2"

var coin = rand.IntN(2)
