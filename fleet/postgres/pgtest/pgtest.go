// Package pgtest gives tests a real PostgreSQL of their own: private, on a free
// port of loopback, with passwords, without fsync, and gone with the test binary.
//
// Start hands out a fresh database on the one server that a test binary shares;
// New starts a server that a test may stop and start again. The binaries come
// from the Debian package, or from $PATH.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Password is the password in every URL, so that tests can look for it where it
// must not be.
const Password = "pass-4711-word"

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Start returns the URL of a fresh, empty database. The server starts with the
// first call and ends with the process.
func Start(tb testing.TB) string {
	tb.Helper()
	bin := binaries(tb)
	shared.once.Do(func() { shared.server, shared.err = launch(bin) })
	if shared.err != nil {
		tb.Fatalf("start PostgreSQL: %v", shared.err)
	}
	return shared.server.Database(tb)
}

// New starts a server for one test, with settings of its own besides those that
// all servers here have.
func New(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	s, err := launch(binaries(tb), settings...)
	if err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
	tb.Cleanup(s.close)
	return s
}

// Server is one PostgreSQL.
type Server struct {
	bin  string
	dir  string
	port int
	set  []string // more settings, "name=value"
	env  []string // more environment
	cred *syscall.Credential
	cmd  *exec.Cmd
	hold io.WriteCloser // the supervisor ends the server when this pipe closes
}

// URL returns the URL of a database of the server.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://ebb:%s@127.0.0.1:%d/%s?sslmode=disable", Password, s.port, database)
}

// Address is where the server listens.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Database makes a database for one test and returns its URL.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := "t_" + strings.ToLower(rand.Text()[:12])
	Exec(tb, s.URL("postgres"), "create database "+name)
	tb.Cleanup(func() {
		if conn, err := pgx.Connect(context.Background(), s.URL("postgres")); err == nil {
			_, _ = conn.Exec(context.Background(), "drop database "+name+" with (force)")
			conn.Close(context.Background())
		}
	})
	return s.URL(name)
}

// Exec runs statements, separated by semicolons.
func Exec(tb testing.TB, url, text string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		tb.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, text).ReadAll(); err != nil {
		tb.Fatalf("run %.60q: %v", text, err)
	}
}

// launch makes a cluster and starts its server.
func launch(bin string, settings ...string) (*Server, error) {
	s, err := place(bin, settings)
	if err != nil {
		return nil, err
	}
	if err := s.init(); err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	return s.begin()
}

// place is a server without a cluster yet.
func place(bin string, settings []string) (*Server, error) {
	s := &Server{bin: bin, set: settings}
	var err error
	if s.cred, err = owner(); err != nil {
		return nil, err
	}
	parent := "" // root's own TMPDIR may be closed to the server's user
	if s.cred != nil {
		parent = "/tmp"
	}
	if s.dir, err = os.MkdirTemp(parent, "ebb-pg-"); err != nil {
		return nil, err
	}
	if s.cred != nil {
		err = os.Chown(s.dir, int(s.cred.Uid), int(s.cred.Gid))
	}
	return s, err
}

// begin finds a port and starts the server there.
func (s *Server) begin() (*Server, error) {
	var err error
	for range 5 { // another process may take the port first
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
	}
	s.close()
	return nil, err
}

func (s *Server) init() error {
	pw := filepath.Join(s.dir, "pw")
	if err := os.WriteFile(pw, []byte(Password+"\n"), 0o600); err != nil {
		return err
	}
	if s.cred != nil {
		if err := os.Chown(pw, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
			return err
		}
	}
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", "ebb", "-A", "scram-sha-256",
		"--pwfile", pw, "-E", "UTF8", "--locale", "C", "--no-sync")
	s.dress(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// dress runs a command as the owner of the cluster, in its folder.
func (s *Server) dress(cmd *exec.Cmd) {
	cmd.Dir = s.dir
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}, s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Setpgid: true}
}

// supervise keeps the server no longer than its standard input stays open, and
// so no longer than the test process lives, however that ends. Then it also removes
// the cluster; a server that is only stopped keeps it, by the word "keep".
const supervise = `dir=$PWD; pg=$0; port=$1; shift; "$pg" -D data -k "$dir" -p "$port" -c listen_addresses=127.0.0.1 -c fsync=off \
	-c full_page_writes=off -c synchronous_commit=off -c max_connections=200 -c shared_buffers=16MB "$@" </dev/null >>log 2>&1 &
p=$!; read -r line; kill -INT $p; wait $p
if [ "$line" != keep ]; then cd / && rm -rf "$dir"; fi`

// Start starts the server on its port.
func (s *Server) Start() error {
	args := []string{"-c", supervise, filepath.Join(s.bin, "postgres"), strconv.Itoa(s.port)}
	for _, set := range s.set {
		args = append(args, "-c", set)
	}
	cmd := exec.Command("/bin/sh", args...)
	s.dress(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.hold = cmd, in
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		var conn *pgx.Conn
		if conn, err = pgx.Connect(ctx, s.URL("postgres")); err == nil {
			conn.Close(ctx)
			cancel()
			return nil
		}
		cancel()
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	s.Stop()
	return fmt.Errorf("the server does not answer: %w\n%s", err, log)
}

// Stop ends the server, cutting its connections, and waits until it is gone.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_, _ = io.WriteString(s.hold, "keep\n")
	s.hold.Close()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Kill ends all processes of the server with SIGKILL, and returns when they are
// gone; Start starts it again. What it had confirmed is kept only where it was
// made with Durable.
func (s *Server) Kill() error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return fmt.Errorf("kill PostgreSQL: its pid: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // it starts no more of them
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	all := append(children(pid), pid)
	for _, p := range all {
		_ = syscall.Kill(p, syscall.SIGKILL) // gone already, then
	}
	s.Stop()
	for _, p := range all { // a server does not start beside backends of the one before
		for end := time.Now().Add(time.Minute); syscall.Kill(p, 0) == nil; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("kill PostgreSQL: process %d does not end", p)
			}
		}
	}
	return nil
}

// children lists the processes that a process has started.
func children(pid int) []int {
	var list []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		var state string
		var parent int
		rest := string(b[strings.LastIndexByte(string(b), ')')+1:])
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil && parent == pid {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			list = append(list, child)
		}
	}
	return list
}

// Durable is the setting of a server that keeps what it has confirmed when its
// processes are killed.
const Durable = "synchronous_commit=on"

func (s *Server) close() {
	s.Stop()
	os.RemoveAll(s.dir)
}

// owner is who runs the server: PostgreSQL refuses to run as root.
func owner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("there is neither a user postgres nor nobody to run PostgreSQL as")
}

// binaries finds PostgreSQL. On Debian as root it is part of what the tests need.
func binaries(tb testing.TB) string {
	tb.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	sort.Strings(found)
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	if p, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(p)
	}
	missing(tb, "postgresql")
	return ""
}

// needs finds the file of a Debian package; the pattern is a glob.
func needs(tb testing.TB, pkg, pattern string) string {
	tb.Helper()
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		missing(tb, pkg)
	}
	return found[0]
}

// missing fails a test where what it lacks should be there, and skips it
// elsewhere.
func missing(tb testing.TB, pkg string) {
	tb.Helper()
	if _, err := os.Stat("/etc/debian_version"); err == nil && os.Getuid() == 0 {
		tb.Fatalf("%s is not installed: apt-get install %s", pkg, pkg)
	}
	tb.Skipf("%s is not installed", pkg)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
