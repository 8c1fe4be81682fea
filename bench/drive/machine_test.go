package main

import (
	"math"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestOthers(t *testing.T) {
	then := others{busy: 100, known: 40, threads: map[int]float64{5: 1, 6: 7}, at: time.Unix(0, 0)}
	now := others{busy: 130, known: 60, threads: map[int]float64{5: 3, 9: .5}, at: time.Unix(10, 0)}
	// 30 s busy, of them 20 by the benchmark, 2.5 by threads of the kernel
	if got := now.cores(then); math.Abs(got-.75) > 1e-9 {
		t.Errorf("%v cores, want 0.75", got)
	}
}

func TestBusySeconds(t *testing.T) {
	got, err := busySeconds([]byte("cpu  100 20 300 4000 50 6 7 80 0 0\ncpu0 1 2 3\n"))
	if err != nil || got != 5 {
		t.Errorf("%v, %v, want 5: user, nice, system and stolen", got, err)
	}
	if _, err := busySeconds([]byte("intr 5\n")); err == nil {
		t.Error("something else is taken for the CPU's line")
	}
}

// A program that keeps a core busy is seen, unless it is one of ours.
func TestADisturbanceIsSeen(t *testing.T) {
	burn := exec.Command("sh", "-c", "while :; do :; done")
	if err := burn.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = burn.Process.Kill(); _ = burn.Wait() }()
	look := func() (with, without others) {
		with, err := lookAround(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if without, err = lookAround(os.Getpid(), burn.Process.Pid); err != nil {
			t.Fatal(err)
		}
		return with, without
	}
	with, without := look()
	used, _ := cpuOf(burn.Process.Pid)
	begin := time.Now()
	for now := used; now < used+.2 && time.Since(begin) < 20*time.Second; now, _ = cpuOf(burn.Process.Pid) {
		time.Sleep(10 * time.Millisecond)
	}
	with2, without2 := look()
	seen, rest := with2.cores(with), without2.cores(without)
	if share := .2 / time.Since(begin).Seconds(); seen-rest < share/2 {
		t.Errorf("%.2f cores with it, %.2f without, it had %.2f", seen, rest, share)
	}
}

func TestProcessFigures(t *testing.T) {
	p, err := start([]string{"sh", "-c", "echo hello; exec sleep 60"}, t.TempDir()+"/log")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); p.lastWords() == "" && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if cpu, err := p.cpu(); err != nil || cpu > 5 {
		t.Errorf("cpu %v, %v", cpu, err)
	}
	if rss, err := p.peakRSS(); err != nil || rss <= 0 || rss > 1000 {
		t.Errorf("peak RSS %v, %v", rss, err)
	}
	if p.ended() {
		t.Error("ended while it sleeps")
	}
	if took, err := p.stop(); err != nil || took > 20*time.Second || !p.ended() {
		t.Errorf("stop took %s, %v", took, err)
	}
	if words := p.lastWords(); words != "hello" {
		t.Errorf("last words %q", words)
	}
}
