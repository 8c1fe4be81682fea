package engine

import (
	_ "github.com/understudy-streams/understudy/internal/group" // checked by itself: what it reaches is not said twice
	_ "github.com/understudy-streams/understudy/streams"
)
