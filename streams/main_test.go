package streams_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/internal/realkafka"
)

// children are what the test binary can be besides tests, by the environment variable that makes it so. They get its value and return the exit
// code.
var children = map[string]func(spec string) int{childEnv: child, memberEnv: memberChild, recoveryEnv: recoveryChild}

func TestMain(m *testing.M) {
	for env, run := range children {
		if spec := os.Getenv(env); spec != "" {
			os.Exit(run(spec))
		}
	}
	if spec := os.Getenv(ledgerEnv); spec != "" {
		os.Exit(ledgerChild(spec))
	}
	flag.Parse()
	manyAtOnce()
	code := m.Run()
	if err := realkafka.StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if err := goleak.Find(proxies...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
