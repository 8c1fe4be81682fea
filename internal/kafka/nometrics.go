package kafka

import "github.com/rcrowley/go-metrics"

// noMetrics is a registry that registers nothing. sarama's own meters cost CPU per request and start a goroutine for the whole process; the
// switch that go-metrics has against that is a global one, which belongs to the program and not to us.
type noMetrics struct{}

func (noMetrics) Each(func(string, any)) {}

func (noMetrics) Get(string) any { return nil }

func (noMetrics) GetAll() map[string]map[string]any { return nil }

func (noMetrics) GetOrRegister(_ string, metric any) any {
	switch metric.(type) {
	case func() metrics.Meter, metrics.Meter:
		return metrics.NilMeter{}
	case func() metrics.Histogram, metrics.Histogram:
		return metrics.NilHistogram{}
	case func() metrics.Counter, metrics.Counter:
		return metrics.NilCounter{}
	case func() metrics.Timer, metrics.Timer:
		return metrics.NilTimer{}
	case func() metrics.Gauge, metrics.Gauge:
		return metrics.NilGauge{}
	}
	return metric
}

func (noMetrics) Register(string, any) error { return nil }

func (noMetrics) RunHealthchecks() {}

func (noMetrics) Unregister(string) {}

func (noMetrics) UnregisterAll() {}
