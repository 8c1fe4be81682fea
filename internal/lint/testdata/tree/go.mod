// A tree in which each rule is broken once; lint_test.go says what has to be found.
module github.com/understudy-streams/understudy

go 1.27

require (
	example.com/deep v0.0.0
	github.com/IBM/sarama v0.0.0
)

replace (
	example.com/deep => ./third/deep
	github.com/IBM/sarama => ./third/sarama
)
