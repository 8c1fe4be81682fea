package deep

import "example.com/deep/deeper"

var Name = deeper.Name
