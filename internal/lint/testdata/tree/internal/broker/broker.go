package broker

import _ "github.com/IBM/sarama"
