package deeper

import "os"

var Name = os.Args[0]
