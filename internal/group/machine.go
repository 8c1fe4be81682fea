package group

import "time"

// Machine is one member of the group, as a state machine.
type Machine struct {
	cfg   Config
	state State
	acts  []Action
}

// New returns a stopped machine.
func New(cfg Config) *Machine { return &Machine{cfg: cfg.withDefaults()} }

// Step takes an event and returns what is to be done about it. The slice is reused by the next Step.
func (m *Machine) Step(now time.Time, ev Event) []Action { return m.acts[:0] }

// State says where the member is.
func (m *Machine) State() State { return m.state }

// Membership is what a commit must carry: the member id and the generation of the last assignment that was applied, and the
// coordinator's address.
func (m *Machine) Membership() (memberID string, generation int32, coordinator string) {
	return "", -1, ""
}
