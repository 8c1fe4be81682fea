package offsetstore_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/streams/offsetstore"
)

// holderEnv makes the test binary a process that has the file open which it names, until it is killed.
const holderEnv = "UNDERSTUDY_TEST_OFFSETS"

func TestMain(m *testing.M) {
	if path := os.Getenv(holderEnv); path != "" {
		_, err := offsetstore.OpenFile(path)
		fmt.Println("opened", err)
		select {}
	}
	goleak.VerifyTestMain(m)
}
