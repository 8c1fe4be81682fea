package task

import (
	_ "log/slog"
	_ "math/rand"
	_ "net/http"
	_ "os/exec"
	_ "sync/atomic"
	. "time"

	_ "example.com/deep"
)

const tick = Second
