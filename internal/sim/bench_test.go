package sim

import (
	"runtime/debug"
	"testing"
)

// BenchmarkSeeds plays the first seeds of each kind of run, one after another. With -benchtime=100x two programs play the same ones.
func BenchmarkSeeds(b *testing.B) {
	kinds := []struct {
		name string
		cfg  Config
		is   func(*world) bool
	}{
		{"plain", Config{}, func(w *world) bool { return !w.mood.planned && w.recovery.above == 0 && !w.failing.any() }},
		{"planned", Config{}, func(w *world) bool { return w.mood.planned }},
		{"failing", Config{}, func(w *world) bool { return !w.mood.planned && w.recovery.above == 0 && w.failing.any() }},
		{"recovery", Config{Recover: true}, func(w *world) bool { return !w.mood.planned }},
	}
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
			var all []Config
			for cfg := k.cfg; len(all) < b.N && len(all) < 100; {
				cfg.Seed++
				if k.is(newWorld(cfg.withDefaults())) {
					all = append(all, cfg)
				}
			}
			b.ResetTimer()
			events := 0
			began := cpuTime(b)
			for i := range b.N {
				r := Run(all[i%len(all)])
				if r.Err != nil {
					b.Fatal(r.String())
				}
				events += r.Events
			}
			b.ReportMetric(float64(b.N)/(cpuTime(b)-began).Seconds(), "seeds/core-s")
			b.ReportMetric(float64(events)/float64(b.N), "events/seed")
		})
	}
}

// any says that some records fail.
func (f *failing) any() bool {
	for _, t := range f.fates {
		if t.kind != succeeds {
			return true
		}
	}
	return f.outage[1] > 0
}
