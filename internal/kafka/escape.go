package kafka

import "github.com/IBM/sarama"

// SaramaConfig is what [Config.Sarama] may change, under a name that does not make its users import the library.
type SaramaConfig = sarama.Config
