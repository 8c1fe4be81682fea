package realkafka

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tool runs one of Kafka's own programs, named by its Java class, against the cluster and returns what it prints. It takes a second or two.
func (c *Cluster) Tool(ctx context.Context, class string, args ...string) (string, error) {
	args = append([]string{
		"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(cacheDir(), "libs", "*"),
		class, "--bootstrap-server", strings.Join(c.addrs, ","),
	}, args...)
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, "java", args...) //nolint:gosec // the class is named by a test
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("realkafka: %s: %w: %s", class, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
