package sarama

const Version = 1
