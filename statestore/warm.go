package statestore

// Warm looks at where the rows of keys lie that are about to be read, all at once: with many keys that is mostly waiting for memory, and
// one wait does for all of them then. It changes nothing and reads nothing from base.
func (o *Overlay) Warm(keys [][]byte) {
	if o.table.used == 0 {
		return
	}
	mask := uint32(len(o.table.slots) - 1)
	var hashes [warmKeys]uint32
	for len(keys) > 0 {
		n := min(len(keys), warmKeys)
		var seen uint64
		for i, k := range keys[:n] {
			h := hashKey(o.seed, k)
			hashes[i] = h
			seen += o.table.slots[h&mask]
		}
		for _, h := range hashes[:n] {
			seen += uint64(o.entries[uint32(o.table.slots[h&mask])].flags)
		}
		o.warmed += seen
		keys = keys[n:]
	}
}

// warmKeys is how many memory accesses are under way at once: processors have about as many.
const warmKeys = 16
