package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// An artifact names the Maven artifact a server is started from.
type artifact struct{ group, name, version string }

// cacheFolder holds one folder an artifact: pom.xml, lib with the jars, and the file complete, written last.
func (a artifact) cacheFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for the servers' jars: %w", err)
	}
	return filepath.Join(cache, "tenure-servers", a.name+"-"+a.version), nil
}

// cached reports whether the jars are there.
func (a artifact) cached() bool {
	folder, err := a.cacheFolder()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(folder, "complete"))
	return err == nil
}

// jars returns the folder with the jars of a and all it needs at run time, downloaded by Maven the first time. Several
// processes may ask at once: one downloads, the others wait.
func (a artifact) jars(ctx context.Context, say func(string, ...any)) (string, error) {
	folder, err := a.cacheFolder()
	if err != nil {
		return "", err
	}
	lib := filepath.Join(folder, "lib")
	if a.cached() {
		return lib, nil
	}
	for {
		lock, err := lockFolder(folder)
		if err == nil {
			defer lock.Close()
			break
		}
		if !errors.Is(err, errLocked) {
			return "", err
		}
		if cause := sleep(ctx, pause); cause != nil {
			return "", fmt.Errorf("wait for another process that downloads %s %s: %w", a.name, a.version, cause)
		}
	}
	if a.cached() { // the other process has done it
		return lib, nil
	}
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoMaven, err)
	}
	say("downloading %s %s with Maven into %s", a.name, a.version, folder)
	if err := a.download(ctx, maven, folder, lib); err != nil {
		return "", fmt.Errorf("download %s %s with Maven: %w", a.name, a.version, err)
	}
	return lib, nil
}

const pom = `<project><modelVersion>4.0.0</modelVersion>
<groupId>servers</groupId><artifactId>%[2]s</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>%[1]s</groupId><artifactId>%[2]s</artifactId><version>%[3]s</version></dependency></dependencies>
</project>
`

// download fills a fresh folder and renames it: Maven takes a jar that an interrupted run left half written for good.
func (a artifact) download(ctx context.Context, maven, folder, lib string) error {
	part := lib + ".part"
	if err := errors.Join(os.RemoveAll(part), os.RemoveAll(lib)); err != nil {
		return err
	}
	file := filepath.Join(folder, "pom.xml")
	if err := os.WriteFile(file, fmt.Appendf(nil, pom, a.group, a.name, a.version), 0o644); err != nil {
		return err
	}
	output, err := os.CreateTemp("", "tenure-maven-")
	if err != nil {
		return err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	cmd := exec.Command(maven, "-q", "-B", "-f", file, "dependency:copy-dependencies",
		"-DoutputDirectory="+part, "-DincludeScope=runtime")
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, output, output
	keep.hold(part)
	defer keep.drop(part)
	p, err := keep.start(cmd)
	if err != nil {
		return err
	}
	err = p.wait(ctx)
	keep.forget(p)
	if err != nil {
		_ = os.RemoveAll(part)
		return fmt.Errorf("%w\n%s", err, tail(output.Name(), 20))
	}
	if err := os.Rename(part, lib); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "complete"), nil, 0o644)
}

var errNoMaven = errors.New("no Maven (mvn) found")

// javaCandidates returns where a java may be: JAVA_HOME, PATH, and the folder that Linux distributions use.
func javaCandidates() []string {
	var candidates []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		candidates = append(candidates, filepath.Join(home, "bin", "java"))
	}
	if path, err := exec.LookPath("java"); err == nil {
		candidates = append(candidates, path)
	}
	installed, _ := filepath.Glob("/usr/lib/jvm/*/bin/java")
	return append(candidates, installed...)
}

// findJava returns the first candidate of the wanted major version.
func findJava(ctx context.Context, major string, candidates []string) (string, error) {
	var seen []string
	for _, c := range candidates {
		text, err := exec.CommandContext(ctx, c, "-version").CombinedOutput()
		if cause := context.Cause(ctx); cause != nil {
			return "", cause
		}
		switch version := javaVersion(string(text)); {
		case version == major:
			return c, nil
		case version != "":
			seen = append(seen, fmt.Sprintf("%s is version %s", c, version))
		case err != nil:
			seen = append(seen, fmt.Sprintf("%s does not run: %v", c, err))
		default:
			seen = append(seen, c+" does not tell its version")
		}
	}
	if len(seen) == 0 {
		return "", fmt.Errorf("no Java %s found: there is no java in JAVA_HOME, PATH or /usr/lib/jvm", major)
	}
	return "", fmt.Errorf("no Java %s found: %s", major, strings.Join(seen, ", "))
}

var javaLine = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

// javaVersion reads the major version out of what java -version prints, or returns "".
func javaVersion(text string) string {
	if m := javaLine.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
