//go:build failpoints

package fail

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled says whether the points are built in.
const Enabled = true

// Env arms one point of the process: "name:n" kills it at the n-th time that it comes by, counted from 1.
const Env = "UNDERSTUDY_KILL_POINT"

var (
	hits  = counters()
	armed = mustParse(os.Getenv(Env))
	die   = kill
)

type arming struct {
	name string
	hit  int64
}

func counters() map[string]*atomic.Int64 {
	m := make(map[string]*atomic.Int64, len(Points))
	for _, p := range Points {
		m[p.Name] = new(atomic.Int64)
	}
	return m
}

func mustParse(s string) arming {
	a, err := parse(s)
	if err != nil {
		panic(err)
	}
	return a
}

// parse reads the value of Env; nothing arms nothing.
func parse(s string) (arming, error) {
	if s == "" {
		return arming{}, nil
	}
	name, n, _ := strings.Cut(s, ":")
	hit, err := strconv.ParseInt(n, 10, 64)
	if hits[name] == nil || err != nil || hit < 1 {
		return arming{}, fmt.Errorf("fail: %s=%q: want the name of a point, a colon and the number of a hit from 1 on", Env, s)
	}
	return arming{name, hit}, nil
}

// Point kills the process if it is armed for this hit. A name that the table does not have is a mistake of the caller's: it panics.
func Point(name string) {
	c := hits[name]
	if c == nil {
		panic("fail: no point is called " + name + ": add it to internal/fail/points.go")
	}
	if n := c.Add(1); name == armed.name && n == armed.hit {
		die()
	}
}

// Hits says how often the process has come by each point so far; those where it has not been are left out.
func Hits() map[string]int64 {
	out := map[string]int64{}
	for name, c := range hits {
		if n := c.Load(); n > 0 {
			out[name] = n
		}
	}
	return out
}

// kill ends the process as nothing in it can prevent or notice. The signal may take a moment to arrive, in which nothing more may happen here.
func kill() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}
