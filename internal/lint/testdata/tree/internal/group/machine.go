package group

import _ "github.com/understudy-streams/understudy/internal/kafka"
