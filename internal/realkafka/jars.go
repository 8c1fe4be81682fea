package realkafka

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Jars returns a folder with what the Maven project of that file needs at run time, for a test that runs a Java program, given as source, beside the
// brokers. They are fetched once and kept in the cache under that name, which must be another one when the file's dependencies change. A test that
// cannot have them is skipped, or fails with REQUIRE_KAFKA=1.
func Jars(t testing.TB, name, pom string) string {
	t.Helper()
	dir := filepath.Join(cacheDir(), name)
	giveUp(t, fetchJars(dir, pom))
	return dir
}

func fetchJars(dir, pom string) error {
	if _, err := exec.LookPath("javac"); err != nil {
		return fmt.Errorf("%w: install a Java 17 development kit: %w", errMissing, err)
	}
	if jars, _ := filepath.Glob(filepath.Join(dir, "*.jar")); len(jars) > 0 {
		return nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("%w: no jars in %s and no Maven to fetch them: %w", errMissing, dir, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("realkafka: %w", err)
	}
	// Downloaded beside and renamed, so that a broken download or a second process leaves no half of it.
	tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".")
	if err != nil {
		return fmt.Errorf("realkafka: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	libs := filepath.Join(tmp, "libs")
	out, err := exec.Command("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+libs, "-DincludeScope=runtime").CombinedOutput()
	if err != nil {
		return fmt.Errorf("realkafka: fetch the jars of %s: %w: %s", pom, err, out)
	}
	if err := os.Rename(libs, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("realkafka: %w", err)
	}
	return nil
}
