package task

import _ "os" // tests may
