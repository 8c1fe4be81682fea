// Package lint holds the rules of the source tree that a compiler cannot: which package may import which, what a pure core must not do,
// how files are called, how long they are. Its test runs them on the whole repository; each failure says why the rule is there.
//
// layers.go says what each package is. A package that is not in there fails the test, and so does a line there that matches no package:
// a rule must not pass because what it guards has moved away.
package lint
