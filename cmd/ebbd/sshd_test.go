package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/probes/client"
	"ebb/probes/wire"
)

// sshdOn starts the system's sshd for one connection, without a port, and logs
// in with a key that is bound to a command.
func sshdOn(t *testing.T, command string) (*ssh.Client, ssh.PublicKey) {
	t.Helper()
	const sshd = "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and sshd")
	}
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o755))
	check(t, makeHost(dir))
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	check(t, err)
	write(t, filepath.Join(dir, "keys"), fmt.Sprintf("restrict,command=%q %s", command, ssh.MarshalAuthorizedKey(signer.PublicKey())), 0o600)
	write(t, filepath.Join(dir, "sshd_config"), strings.Join([]string{
		"HostKey " + filepath.Join(dir, "etc/ssh/ssh_host_ed25519_key"), "AuthorizedKeysFile " + filepath.Join(dir, "keys"),
		"UsePAM no", "UseDNS no", "StrictModes no", "PidFile none", "ExposeAuthInfo yes", "PermitRootLogin yes", "PasswordAuthentication no",
		"SetEnv HOME=" + dir, "", // no start-up files of whoever runs the test
	}, "\n"), 0o600)
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Skip(err)
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	check(t, err)
	theirs, file := os.NewFile(uintptr(fds[0]), "theirs"), os.NewFile(uintptr(fds[1]), "ours")
	ours, err := net.FileConn(file)
	check(t, err)
	file.Close()
	cmd := exec.Command(sshd, "-i", "-e", "-f", filepath.Join(dir, "sshd_config"))
	var log strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, &log
	check(t, cmd.Start())
	theirs.Close()
	t.Cleanup(func() {
		ours.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	check(t, ours.SetDeadline(time.Now().Add(20*time.Second)))
	conn, chans, reqs, err := ssh.NewClientConn(ours, "host", &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), // its own host, made above
	})
	if err != nil {
		ours.Close()
		_ = cmd.Wait()
		t.Fatalf("log in: %v\n%s", err, log.String())
	}
	check(t, ours.SetDeadline(time.Time{}))
	c := ssh.NewClient(conn, chans, reqs)
	t.Cleanup(func() { c.Close() })
	return c, signer.PublicKey()
}

// sshStream is one exec channel as a connection.
type sshStream struct {
	ssh.Channel
	net.Conn // for what a channel does not have
}

func (s sshStream) Read(p []byte) (int, error)       { return s.Channel.Read(p) }
func (s sshStream) Write(p []byte) (int, error)      { return s.Channel.Write(p) }
func (s sshStream) Close() error                     { return s.Channel.Close() }
func (s sshStream) SetDeadline(time.Time) error      { return nil }
func (s sshStream) SetReadDeadline(time.Time) error  { return nil }
func (s sshStream) SetWriteDeadline(time.Time) error { return nil }
func (s sshStream) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "ssh"} }
func (s sshStream) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "ssh"} }

func stream(t *testing.T, c *ssh.Client, command string) net.Conn {
	t.Helper()
	ch, reqs, err := c.OpenChannel("session", nil)
	check(t, err)
	go ssh.DiscardRequests(reqs)
	granted, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	if err != nil || !granted {
		t.Fatalf("exec: %v %v", granted, err)
	}
	return sshStream{Channel: ch}
}

// A key with restrict,command= has one verb, whatever it asks for; who came in
// with it stands in the audit log.
func TestAKeyOfARealSSHDHasOneVerb(t *testing.T) {
	bin, root := built(t), t.TempDir()
	check(t, makeHost(root))
	check(t, exec.Command(bin, "init", "--root", root).Run())
	serve(t, bin, root, "--scope", "ebb-test-none")
	conn, key := sshdOn(t, bin+" dial-stdio --root "+root+" --role cordon")
	dial := func(ask string, role wire.Role) (*client.Client, error) {
		return client.Dial(t.Context(), func(context.Context) (net.Conn, error) { return stream(t, conn, ask), nil }, client.Options{Role: role, Operator: "ann@desk"})
	}
	c, err := dial("sudo -n ebbd dial-stdio --role cordon", wire.Cordon)
	check(t, err)
	defer c.Close()
	reply, err := c.Cordon(t.Context(), wire.CordonRequest{Who: "ann", Why: "hunch"})
	check(t, err)
	if !reply.Changed {
		t.Fatalf("%+v", reply)
	}
	_, err = c.Uncordon(t.Context(), wire.LiftRequest{Who: "ann"})
	check(t, err)
	watcher, err := dial("ebbd dial-stdio --role observe", wire.Observe)
	check(t, err)
	defer watcher.Close()
	if _, err := watcher.Facts(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := dial("ebbd dial-stdio --role operate", wire.Operate); err == nil || !strings.Contains(err.Error(), "bound to role cordon") {
		t.Fatalf("asked for more: %v", err)
	}
	if _, err := dial("rm -rf /nothing", wire.Cordon); err == nil || !strings.Contains(err.Error(), "for ebbd with role cordon only") {
		t.Fatalf("asked for a command: %v", err)
	}
	audit, err := os.ReadFile(filepath.Join(root, "var/lib/ebb/audit.log"))
	check(t, err)
	if !strings.Contains(string(audit), ssh.FingerprintSHA256(key)) || !strings.Contains(string(audit), "ann@desk") {
		t.Fatalf("the key is not in the audit log:\n%s", audit)
	}
}
