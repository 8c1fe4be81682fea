package main

import (
	"slices"
	"strings"
	"testing"
)

// two partitions: 0 moves from a to b with a silence of 400 ms, 1 stays at a and is silent for 60 ms at the most.
func movingAndStaying() []timeline {
	return []timeline{
		append(seen('a', 1000, 1020, 1040, 1100), seen('b', 1500, 1520, 1540, 2000)...),
		seen('a', 1000, 1050, 1100, 1160, 1200, 1250, 1300, 1350, 1400, 1450, 1500, 1550, 1600, 1650, 1700, 1750, 1800, 1850, 1900, 1950, 2000),
	}
}

func TestOutageOfAJoin(t *testing.T) {
	o := outageOf(happening{name: "+b", window: window{1090, 1540}, newcomers: []byte("b")}, movingAndStaying(), 60)
	if o.moving != (gap{1100, 1500}) || o.staying != (gap{1100, 1160}) || o.dead != (gap{}) {
		t.Errorf("%+v", o)
	}
	if o.moved != 1 || o.first != 1500 || o.returned != 0 {
		t.Errorf("%+v", o)
	}
	if o.movingFor != .4 || o.stayingFor != 0 || o.deadFor != 0 {
		t.Errorf("%+v", o)
	}
	if len(o.notes) != 2 || !strings.Contains(o.notes[0], "a→b, silent for 0.400 s at +0.0 s") {
		t.Errorf("%q", o.notes)
	}
}

func TestOutageOfAKill(t *testing.T) {
	o := outageOf(happening{window: window{1090, 1540}, dead: 'a'}, movingAndStaying()[:1], 60)
	if o.deadFor < .4 || o.movingFor+o.stayingFor != 0 || o.dead != (gap{1100, 1500}) || o.moving != (gap{}) || o.staying != (gap{}) {
		t.Errorf("%+v", o)
	}
	o = outageOf(happening{window: window{1090, 1540}, dead: 'c'}, movingAndStaying()[1:], 60)
	if o.staying != (gap{1100, 1160}) || o.dead != (gap{}) {
		t.Errorf("%+v", o)
	}
}

func TestOutageOfARestart(t *testing.T) {
	there := append(append(seen('a', 1000), seen('b', 1200, 1300)...), seen('a', 1400)...)
	o := outageOf(happening{window: window{1050, 1500}, restarted: 'a'}, []timeline{there, seen('a', 1000, 1450, 1500)}, 60)
	if o.returned != 1 || o.moved != 1 {
		t.Errorf("%+v", o)
	}
	if o.moving != (gap{1000, 1450}) || o.staying != (gap{}) {
		t.Errorf("what came back to the process that was restarted has not stayed: %+v", o)
	}
}

func TestFiguresOfARun(t *testing.T) {
	h := happening{name: "+b", window: window{1090, 1540}, processes: []int{1}, newcomers: []byte("b"), balanced: 1590, rounds: 3, reasons: []string{"learners are ready", "already here", "a member joined"}}
	said := []word{restore(1, 1480, "0_0", "5000", "200"), restore(0, 1490, "0_1", "5000", "9999")}
	f, notes := figuresFrom([]happening{h}, movingAndStaying(), window{1000, 1090}, said, 4000)
	for name, want := range map[figure]float64{
		firstTask: .41, learnt: .2, beyond: .21, balance: .5, steady: .05, moving: .4, staying: .06, stayingAbove: .01, roundsTaken: 3, readyBatches: 1, roundsBeyond: 2,
		coldRestores: 2, partsMoved: 1, wentBack: 0, every: 20, everyP99: 50, pausedMoving: .4, pausedStaying: 0,
	} {
		if got, ok := f[name]; !ok || got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	for _, name := range []figure{dead, survivor, pausedDead} {
		if _, ok := f[name]; ok {
			t.Errorf("nobody was killed, but there is %s", name)
		}
	}
	if len(notes) != 5 {
		t.Errorf("%q", notes)
	}
	h.dead, h.newcomers, h.balanced = 'b', nil, 0
	f, notes = figuresFrom([]happening{h}, movingAndStaying(), window{1000, 1090}, nil, 4000)
	if _, ok := f[staying]; ok || f[survivor] != .06 || !slices.Contains(notes, "+b: not balanced in time") {
		t.Errorf("%v %q", f, notes)
	}
}

func TestShared(t *testing.T) {
	for _, c := range []struct {
		owners, instances string
		want              bool
	}{
		{"aabb", "ab", true}, {"aaab", "ab", false}, {"aabbc", "abc", true}, {"aaabc", "abc", false}, {"aabb", "abc", false}, {"aabb", "a", false},
		{"aaaa", "a", true}, {"aa\x00b", "ab", false}, {"ab", "abc", true},
	} {
		if got := shared([]byte(c.owners), []byte(c.instances)); got != c.want {
			t.Errorf("%q over %q: %v", c.owners, c.instances, got)
		}
	}
}
