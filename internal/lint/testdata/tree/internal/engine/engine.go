package engine

import (
	_ "github.com/understudy-streams/understudy/internal/group" // allowed: what its shell imports is not what its machine does
	_ "github.com/understudy-streams/understudy/streams"
)
