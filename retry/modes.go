package retry

import "time"

// Stop ends the application with the record's error, after the tries that Inline names. Nothing past the record is committed. Errors that
// ask for another try ([Snooze], [After]) end it too; [Skip] does not.
func Stop(opts ...Option) Policy { return named(ModeStop, opts) }

// Ordered tries the record again in its place. Its task waits meanwhile, all others go on. It stops at the end unless told otherwise.
func Ordered(opts ...Option) Policy { return named(ModeOrdered, opts) }

// KeyOrdered puts the record aside and tries it again beside the main path: later records of the same key follow it, all other keys pass.
// Records without a key pass. It stops at the end unless told otherwise.
//
// A record that a newer version of the program has put aside, in a form that this one does not know, stays aside until the newer one runs
// again. Its key is not known until then, so that it holds back no later record of its key: who goes back to an older version gives the order of
// these keys up.
func KeyOrdered(opts ...Option) Policy { return named(ModeKeyOrdered, opts) }

// Parallel puts the record aside and tries it again beside the main path, and all others pass: order is given up. It stops at the end
// unless told otherwise.
func Parallel(opts ...Option) Policy { return named(ModeParallel, opts) }

func named(mode Mode, opts []Option) Policy {
	p := Policy{set: defaults(mode), named: true}
	for _, o := range opts {
		if o.apply == nil {
			p.fault("an empty Option: make options with the functions of the package")
			continue
		}
		p.parts = append(p.parts, o.name)
		o.apply(&p)
	}
	if p.set.Attempts == Forever && !p.has("MaxAge") {
		p.set.MaxAge = 0 // for ever is for ever, unless an age was asked for as well
	}
	return p
}

// defaults are what a policy says of itself when nothing was named.
func defaults(mode Mode) Settings {
	s := Settings{
		Mode: mode, Inline: 1, Attempts: 10,
		First: 100 * time.Millisecond, Most: time.Minute, Factor: 2, Jitter: 0.2, MaxAge: 24 * time.Hour,
		Workers: 1, Crashes: 2,
		Depth: 10_000, Parked: 1_000_000, ParkedBytes: 1 << 30,
		Row: 20, Probe: 5 * time.Second,
	}
	if mode == ModeStop {
		s.Attempts = 1
	}
	return s
}
