package task

import (
	"context"
	wall "time"
)

var now = wall.Now // handed on, not called

func wait(ctx context.Context) wall.Duration {
	_, cancel := context.WithTimeout(ctx, wall.Second)
	defer cancel()
	return wall.Since(now())
}
