//go:build failpoints

package fail

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const childEnv = "UNDERSTUDY_FAIL_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		for range 3 {
			os.Stdout.WriteString("at ")
			Point("dir.locked")
			Point("dir.opened")
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(arm string) (string, syscall.WaitStatus) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"=1", Env+"="+arm)
	out, _ := c.Output()
	return string(out), c.ProcessState.Sys().(syscall.WaitStatus)
}

func TestAnArmedPointKillsItsProcessAtItsHit(t *testing.T) {
	for arm, said := range map[string]string{"dir.locked:1": "at ", "dir.locked:3": "at at at ", "dir.opened:2": "at at "} {
		out, status := child(arm)
		require.Equal(t, said, out, arm)
		require.Equal(t, syscall.SIGKILL, status.Signal(), arm)
	}
	for _, arm := range []string{"", "dir.locked:4", "dir.unlocked:1"} {
		out, status := child(arm)
		require.Equal(t, "at at at ", out, arm)
		require.Zero(t, status, arm)
	}
	_, status := child("dir.misspelt:1")
	require.Equal(t, 2, status.ExitStatus(), "a panic")
}

func TestParse(t *testing.T) {
	a, err := parse("dir.locked:12")
	require.NoError(t, err)
	require.Equal(t, arming{"dir.locked", 12}, a)
	for _, s := range []string{"dir.locked", "dir.locked:", "dir.locked:0", "dir.locked:-1", "dir.locked:x", ":1", "nothing:1"} {
		_, err := parse(s)
		require.Error(t, err, s)
	}
}

func TestUnknownPointsPanicAndHitsAreCounted(t *testing.T) {
	require.Panics(t, func() { Point("nothing") })
	before := Hits()["wipe.before"]
	Point("wipe.before")
	require.Equal(t, before+1, Hits()["wipe.before"])
	require.NotContains(t, Hits(), "wipe.after")
}
