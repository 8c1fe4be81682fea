package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"
)

// scramClient is one SCRAM conversation.
type scramClient struct {
	mechanism Mechanism
	conv      *scram.ClientConversation
}

func (s *scramClient) Begin(user, password, authzID string) error {
	hash := scram.SHA256
	if s.mechanism == ScramSHA512 {
		hash = scram.SHA512
	}
	c, err := hash.NewClient(user, password, authzID)
	if err != nil {
		// The cause may quote what could not be normalized, so it is not passed on.
		return errors.New("SASL.User or SASL.Password has characters that SCRAM forbids")
	}
	s.conv = c.NewConversation()
	return nil
}

// maxIterations bounds what a broker may make the client compute before it has proven who it is: a second or so, which no timeout would end.
// Kafka's own brokers go up to 16,384.
const maxIterations = 1 << 20

func (s *scramClient) Step(challenge string) (string, error) {
	if n := iterations(challenge); n > maxIterations {
		return "", fmt.Errorf("the broker asks for %d SCRAM iterations, at most %d are done", n, maxIterations)
	}
	return s.conv.Step(challenge)
}

// iterations is the number that the server's first message asks for; 0 for other messages.
func iterations(challenge string) int {
	fields := strings.Split(challenge, ",")
	if len(fields) < 3 || !strings.HasPrefix(fields[2], "i=") {
		return 0
	}
	n, err := strconv.Atoi(fields[2][2:])
	if err != nil {
		return 0
	}
	return n
}

func (s *scramClient) Done() bool { return s.conv.Done() }
