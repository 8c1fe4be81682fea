package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/understudy-streams/understudy/internal/kafka"
)

// passwordVariable is where the password is read from: command lines are seen by everybody on the machine.
const passwordVariable = "UNDERSTUDY_PASSWORD"

// connection is what the command line says about reaching the brokers.
type connection struct {
	brokers, ca, mechanism, user string
	tls                          bool
}

func (c *connection) flags(set *flag.FlagSet) {
	set.StringVar(&c.brokers, "brokers", "", "addresses of brokers, host:port, separated by commas (required)")
	set.BoolVar(&c.tls, "tls", false, "connect over TLS")
	set.StringVar(&c.ca, "ca", "", "file with the PEM certificates that sign the brokers' (implies -tls; default: the system's)")
	set.StringVar(&c.mechanism, "sasl", "", "SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	set.StringVar(&c.user, "user", "", "SASL user; the password is read from the environment, "+passwordVariable)
}

// config turns the flags into the client's configuration; getenv is os.Getenv.
func (c *connection) config(getenv func(string) string) (kafka.Config, error) {
	cfg := kafka.Config{ClientID: "understudy-cli"}
	for _, b := range strings.Split(c.brokers, ",") {
		if b = strings.TrimSpace(b); b != "" {
			cfg.Brokers = append(cfg.Brokers, b)
		}
	}
	if c.tls || c.ca != "" {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.ca != "" {
		pem, err := os.ReadFile(c.ca)
		if err != nil {
			return kafka.Config{}, fmt.Errorf("-ca: %w", err)
		}
		cfg.TLS.RootCAs = x509.NewCertPool()
		if !cfg.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return kafka.Config{}, fmt.Errorf("-ca: %s holds no PEM certificate", c.ca)
		}
	}
	if err := c.credentials(getenv); err != nil {
		return kafka.Config{}, err
	}
	if c.mechanism != "" {
		cfg.SASL = kafka.SASL{Mechanism: kafka.Mechanism(c.mechanism), User: c.user, Password: getenv(passwordVariable)}
	}
	return cfg, cfg.Validate()
}

// credentials says what is missing by the names that it has here.
func (c *connection) credentials(getenv func(string) string) error {
	switch kafka.Mechanism(c.mechanism) {
	case "":
		if c.user != "" {
			return errors.New("-user needs -sasl: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
		}
		return nil
	case kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512:
	default:
		return fmt.Errorf("-sasl %s is not known: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", c.mechanism)
	}
	if c.user == "" {
		return errors.New("-sasl needs -user")
	}
	if getenv(passwordVariable) == "" {
		return errors.New("-sasl needs a password: set " + passwordVariable + " in the environment")
	}
	return nil
}
