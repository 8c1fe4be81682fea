package retry

import _ "github.com/understudy-streams/understudy/task"

const Never = 0
