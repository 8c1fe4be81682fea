package group

import _ "sync" // a shell file
