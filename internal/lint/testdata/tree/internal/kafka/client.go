package kafka

import _ "github.com/IBM/sarama" // its place
