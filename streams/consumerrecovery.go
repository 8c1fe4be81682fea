package streams

import "slices"

// Recovery returns the partitions of this consumer in which a crash has left records behind that are returned, or have been, beside what is
// new, in order: see [ConsumerConfig].Recovery. Position is that of the next of them to be returned, and Left counts what is not committed. A
// partition that nobody polls is stalled after half a minute.
func (c *Consumer) Recovery() (out []Recovery) {
	for _, s := range c.shell.Recovery() {
		out = append(out, recoveryOf(s))
	}
	return out
}

// Recovering reports whether records that a crash has left behind are being returned beside what is new.
func (c *Consumer) Recovering() bool { return slices.ContainsFunc(c.Recovery(), Recovery.Alive) }
