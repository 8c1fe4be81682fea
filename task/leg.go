package task

import "github.com/understudy-streams/understudy/retry"

// The rows of the retry store that are deleted go out in a second leg of their own, when everything else of the commit is acknowledged: a
// record that was put aside must not be gone before what its retry made is there.

// legs is what a seal holds back.
type legs struct {
	store int    // of the deletions; -1 where there are none
	after uint64 // effects that are acknowledged first
}

// SealReady says whether the last seal may be handed on. It sends the second leg when its time has come; the effects are to be taken after
// this call and before the seal is handed on.
func (t *Task) SealReady() bool {
	c := &t.commit
	if c.legs.store < 0 {
		return true
	}
	if t.out.acknowledged() < c.legs.after {
		return false
	}
	quiet := t.out.seq == c.seq && len(t.out.active.Groups) == 0
	t.sendDeletions(true)
	t.sendDeletions(false)
	t.out.cut()
	c.buffer.Seq = t.out.seq
	if quiet {
		c.seq = t.out.seq // of the next generation nothing was sent
	}
	c.legs.store = -1
	return true
}

// sendDeletions sends the deletions of payloads, or of entries. Those of payloads come first: an entry that is left without its payload is done,
// while a payload without its entry would never be found again.
func (t *Task) sendDeletions(payloads bool) {
	store := t.commit.legs.store
	d := &t.changelogs[store]
	for i := range t.commit.changes[store] {
		c := &t.commit.changes[store][i]
		if _, payload, _ := retry.ParseKey(c.Key); c.Value != nil || payload != payloads {
			continue
		}
		t.out.row(d, t.cfg.ID.Partition, c, t.now)
		if t.out.active.Bytes >= effectsTarget {
			t.out.cut()
		}
	}
}

// acknowledged is the sequence up to which all effects are.
func (o *outbox) acknowledged() uint64 { return o.oldest - 1 }
