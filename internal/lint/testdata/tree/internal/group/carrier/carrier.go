package carrier

import _ "sync" // no core
