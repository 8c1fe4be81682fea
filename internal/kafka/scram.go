package kafka

import (
	"errors"

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

func (s *scramClient) Step(challenge string) (string, error) { return s.conv.Step(challenge) }

func (s *scramClient) Done() bool { return s.conv.Done() }
