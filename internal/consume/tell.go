package consume

import (
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// NextTell takes what user code is to be told next, nil if there is nothing. What has become pointless meanwhile is left out.
func (m *Machine) NextTell() Tell {
	for len(m.tells) > 0 {
		t := m.tells[0]
		m.tells = slices.Delete(m.tells, 0, 1)
		switch t := t.(type) {
		case TellAssigned:
			if t.Parts = m.still(t.Parts, func(p *part) bool { return p.owed && p.phase == held }); len(t.Parts) > 0 {
				for _, tp := range t.Parts {
					p := m.parts[tp]
					p.owed, p.shown = false, true
				}
				return t
			}
		case TellRevoked:
			if t.Parts = m.still(t.Parts, func(p *part) bool { return p.revocation == t.Revocation }); len(t.Parts) > 0 {
				for _, tp := range t.Parts {
					m.parts[tp].parted = true
				}
				return t
			}
		case TellLoad:
			if !m.closing { // nothing begins any more, and a store that is down is not to hold the end up
				return t
			}
		default:
			return t
		}
	}
	return nil
}

func (m *Machine) still(tps []task.TopicPartition, ok func(*part) bool) (out []task.TopicPartition) {
	for _, tp := range tps {
		if p := m.parts[tp]; p != nil && ok(p) {
			out = append(out, tp)
		}
	}
	return out
}
