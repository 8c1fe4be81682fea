package testdata // not compiled, not looked at
