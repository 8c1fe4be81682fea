package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// transfers are n transfers between a few accounts, the same each time.
func transfers(n int) []string {
	people := []string{"ada", "blaise", "carl", "daniel", "emmy", "felix"}
	rng := rand.New(rand.NewPCG(17, 4))
	out := make([]string, n)
	for i := range out {
		from := rng.IntN(len(people))
		to := (from + 1 + rng.IntN(len(people)-1)) % len(people)
		text, err := json.Marshal(Transfer{From: people[from], To: people[to], Cents: 1 + rng.Int64N(10000)})
		if err != nil {
			panic(fmt.Sprintf("a transfer is nothing but plain fields: %v", err))
		}
		out[i] = string(text)
	}
	return out
}
