package statestore

import "github.com/understudy-streams/understudy/assignor"

var Plan = assignor.Plan
