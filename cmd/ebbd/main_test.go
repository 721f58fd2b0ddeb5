package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"ebb/fleet"
	"ebb/probes/agent"
	"ebb/probes/client"
	"ebb/probes/wire"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ebbd": main})
}

// The scripts use the real binary, with the daemon up and down.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			root := filepath.Join(env.WorkDir, "root")
			env.Setenv("ROOT", root)
			env.Setenv("EBB_OPERATOR", "ann@desk")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // a program of the race detector waits a second at its end
			return makeHost(root)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cordon": func(ts *testscript.TestScript, _ bool, _ []string) {
				_, err := onSocket(context.Background(), ts.Getenv("ROOT"), wire.Cordon, func(ctx context.Context, c *client.Client) (wire.HoldReply, error) {
					return c.Cordon(ctx, wire.CordonRequest{Who: "ann", Why: "hunch"})
				})
				ts.Check(err)
			},
			// exits runs a command that must end with this status.
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				err := ts.Exec(args[1], args[2:]...)
				var e *exec.ExitError
				if !errors.As(err, &e) || strconv.Itoa(e.ExitCode()) != args[0] {
					ts.Fatalf("want exit status %s, got %v", args[0], err)
				}
			},
			// ticket keeps the id in the last output under a name.
			"ticket": func(ts *testscript.TestScript, _ bool, args []string) {
				var t fleet.Ticket
				ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &t))
				ts.Setenv(args[0], t.ID)
			},
			"ready": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(ready(ts.Getenv("ROOT"))) },
		},
		Condition: func(cond string) (bool, error) { return cond == "root" && os.Getuid() == 0, nil },
	})
}

const boot = "6f3c1a52-7b0e-4c0a-9f0b-2a1d3c4e5f60"

// makeHost lays out the files of a host below a directory.
func makeHost(root string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return err
	}
	for path, text := range map[string]string{
		"etc/machine-id":                 "5b1c0e4a9d7f4c2f8f4b7a8e9d0c1b2a\n",
		"proc/sys/kernel/random/boot_id": boot + "\n",
		"etc/ssh/ssh_host_ed25519_key":   string(pem.EncodeToMemory(block)),
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func onSocket[R any](ctx context.Context, root string, role wire.Role, do func(context.Context, *client.Client) (R, error)) (R, error) {
	var out R
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, func(ctx context.Context) (net.Conn, error) {
		return agent.DialSocket(ctx, filepath.Join(root, "run/ebb", role.Socket()))
	}, client.Options{NoHello: true, Operator: "ann@desk"})
	if err != nil {
		return out, err
	}
	defer c.Close()
	return do(ctx, c)
}

// ready waits until the daemon below root answers.
func ready(root string) error {
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		_, err = onSocket(context.Background(), root, wire.Observe, func(ctx context.Context, c *client.Client) (fleet.Facts, error) {
			return c.Facts(ctx, true)
		})
		if err == nil {
			return nil
		}
	}
	return err
}

// built is the real binary.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ebbd")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// daemon is one run of the binary.
type daemon struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

func serve(t *testing.T, bin, root string, args ...string) *daemon {
	t.Helper()
	d := &daemon{cmd: exec.Command(bin, append([]string{"serve", "--root", root}, args...)...)}
	d.cmd.Stderr = &d.log
	check(t, d.cmd.Start())
	t.Cleanup(func() { d.kill() })
	if err := ready(root); err != nil {
		d.kill()
		t.Fatalf("not ready: %v\n%s", err, d.log.String())
	}
	return d
}

func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, []byte(text), mode))
}

// kill -9 in the middle of an act: the command goes on, and the act with it, which
// says interrupted once that has ended; the holds are held, and the id does not
// run again.
func TestKilledInMidAct(t *testing.T) {
	bin, root, token := built(t), t.TempDir(), "ebb-test-"+rand.Text()
	check(t, makeHost(root))
	mark := filepath.Join(root, "mark")
	write(t, filepath.Join(root, "slow"), "#!/bin/sh\necho begun >> "+mark+"\nwhile [ ! -e "+mark+".go ]; do sleep 0.02; done\necho ended >> "+mark+"\n", 0o755)
	write(t, filepath.Join(root, "etc/ebb/ebbd.toml"), "[[command]]\nname = \"slow\"\nrun = [\""+filepath.Join(root, "slow")+"\"]\n", 0o600)
	check(t, exec.Command(bin, "init", "--root", root).Run())
	d := serve(t, bin, root, "--scope", token)
	hold := func(ctx context.Context, c *client.Client) (wire.HoldReply, error) {
		if _, err := c.Cordon(ctx, wire.CordonRequest{Who: "ann"}); err != nil {
			return wire.HoldReply{}, err
		}
		return c.Drain(ctx, wire.DrainRequest{Who: "ann", Drain: "d1", Epoch: 4, Deadline: time.Now().Add(time.Hour)})
	}
	reply, err := onSocket(t.Context(), root, wire.Operate, hold)
	check(t, err)
	req := wire.ActRequest{ID: "act-1", Drain: "d1", Epoch: 4, Machine: reply.Machine, Kind: wire.ActExec, Key: fleet.Key{Kind: "service", ID: "a"}, Command: "slow"}
	do := func(ctx context.Context, c *client.Client) (wire.ActReply, error) { return c.Act(ctx, req) }
	_, err = onSocket(t.Context(), root, wire.Operate, do)
	check(t, err)
	waitFor(t, func() bool { b, _ := os.ReadFile(mark); return string(b) == "begun\n" })
	waitFor(t, func() bool { return strings.Contains(logOfActs(t, root), `"ran"`) }) // which process it is, is on record
	d.kill()
	serve(t, bin, root, "--scope", token)
	for range 2 {
		act, err := onSocket(t.Context(), root, wire.Operate, do)
		check(t, err)
		if act.State != wire.ActBegun {
			t.Fatalf("while its command runs: %+v", act)
		}
	}
	f, err := onSocket(t.Context(), root, wire.Observe, func(ctx context.Context, c *client.Client) (fleet.Facts, error) { return c.Facts(ctx, false) })
	check(t, err)
	if !f.Holds.Both() || f.Holds.Drain.Epoch != 4 {
		t.Fatalf("held after kill -9: %+v", f.Holds)
	}
	write(t, mark+".go", "", 0o600)
	waitFor(t, func() bool { b, _ := os.ReadFile(mark); return string(b) == "begun\nended\n" })
	waitFor(t, func() bool {
		act, err := onSocket(t.Context(), root, wire.Operate, do)
		return err == nil && act.State == wire.ActInterrupted && !act.OK
	})
}

// logOfActs is what the agent has on record of its acts.
func logOfActs(t *testing.T, root string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "var/lib/ebb*/acts.log"))
	check(t, err)
	if len(files) != 1 {
		t.Fatalf("%d logs of acts", len(files))
	}
	b, err := os.ReadFile(files[0])
	check(t, err)
	return string(b)
}

// kill -9 at any moment while holds are set and lifted: what was confirmed
// last is held.
func TestKilledWhileHoldsChange(t *testing.T) {
	bin, root := built(t), t.TempDir()
	check(t, makeHost(root))
	check(t, exec.Command(bin, "init", "--root", root).Run())
	for round := range 6 {
		d := serve(t, bin, root, "--scope", "ebb-test-none")
		confirmed := make(chan uint64, 1)
		go func() {
			var last uint64
			_, _ = onSocket(context.Background(), root, wire.Operate, func(ctx context.Context, c *client.Client) (int, error) {
				for epoch := uint64(round*10000 + 1); ; epoch++ {
					if _, err := c.Drain(ctx, wire.DrainRequest{Who: "ann", Drain: "d1", Epoch: epoch, Deadline: time.Now()}); err != nil {
						return 0, err
					}
					last = epoch
				}
			})
			confirmed <- last
		}()
		waitFor(t, func() bool {
			rec, err := agent.ReadHolds(filepath.Join(root, "var/lib/ebb"))
			return err == nil && rec.Holds.Drain != nil && rec.Holds.Drain.Epoch > uint64(round*10000+round*3+2)
		})
		d.kill()
		last := <-confirmed
		rec, err := agent.ReadHolds(filepath.Join(root, "var/lib/ebb"))
		check(t, err)
		// The one in flight may have been written and not yet confirmed.
		if got := rec.Holds.Drain.Epoch; last == 0 || got != last && got != last+1 {
			t.Fatalf("round %d: confirmed %d, on the disk %d", round, last, got)
		}
	}
}

func TestDialStdio(t *testing.T) {
	bin, root := built(t), t.TempDir()
	check(t, makeHost(root))
	check(t, exec.Command(bin, "init", "--root", root).Run())
	serve(t, bin, root, "--scope", "ebb-test-none")
	key, err := os.ReadFile(filepath.Join(root, "etc/ssh/ssh_host_ed25519_key"))
	check(t, err)
	signer, err := ssh.ParsePrivateKey(key)
	check(t, err)
	auth := filepath.Join(t.TempDir(), "auth")
	write(t, auth, "publickey "+string(ssh.MarshalAuthorizedKey(signer.PublicKey())), 0o600)
	env := []string{"SSH_CONNECTION=192.0.2.7 51022 192.0.2.9 22", "SSH_USER_AUTH=" + auth}

	c := throughStdio(t, bin, root, "cordon", wire.Cordon, env...)
	_, err = c.Cordon(t.Context(), wire.CordonRequest{Who: "ann", Why: "hunch"})
	check(t, err)
	audit, err := os.ReadFile(filepath.Join(root, "var/lib/ebb/audit.log"))
	check(t, err)
	for _, want := range []string{"192.0.2.7 51022 192.0.2.9 22", ssh.FingerprintSHA256(signer.PublicKey()), `"role":"cordon"`} {
		if !strings.Contains(string(audit), want) {
			t.Errorf("no %q in the audit log:\n%s", want, audit)
		}
	}
	_, err = c.Drain(t.Context(), wire.DrainRequest{Who: "ann", Drain: "d", Epoch: 1, Deadline: time.Now()})
	if !client.HasCode(err, wire.CodeForbidden) {
		t.Fatalf("a cordon channel drained: %v", err)
	}
	// A key that is bound to a role: what it was asked for decides.
	forced := throughStdio(t, bin, root, "operate", wire.Cordon, "SSH_ORIGINAL_COMMAND=sudo /usr/local/bin/ebbd dial-stdio --role cordon")
	if _, err := forced.Summary(t.Context()); err != nil {
		t.Fatal(err)
	}
	for original, why := range map[string]string{
		"ebbd dial-stdio --role operate":     "bound to role cordon",
		"ebbd dial-stdio --role=terminate":   "bound to role cordon",
		"bash -i":                            "for ebbd with role cordon only",
		"ebbd dial-stdio --role 'admission'": "bound to role cordon",
	} {
		cmd := exec.Command(bin, "dial-stdio", "--root", root, "--role", "cordon")
		cmd.Env = append(os.Environ(), "SSH_ORIGINAL_COMMAND="+original)
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); err == nil || code != 3 || !strings.Contains(string(out), why) || strings.Contains(string(out), "EBBD/") {
			t.Errorf("%q: exit %d, said %q", original, code, out)
		}
	}
}

// throughStdio speaks with the agent as a console does through SSH.
func throughStdio(t *testing.T, bin, root, role string, want wire.Role, env ...string) *client.Client {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	check(t, err)
	theirs := os.NewFile(uintptr(fds[0]), "theirs")
	file := os.NewFile(uintptr(fds[1]), "ours")
	ours, err := net.FileConn(file)
	check(t, err)
	file.Close()
	cmd := exec.Command(bin, "dial-stdio", "--root", root, "--role", role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	check(t, cmd.Start())
	theirs.Close()
	c, err := client.Dial(t.Context(), func(context.Context) (net.Conn, error) { return ours, nil }, client.Options{Role: want})
	check(t, err)
	t.Cleanup(func() {
		c.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("dial-stdio: %v", err)
		}
	})
	return c
}

func TestAScopedAgentIsPoweredOffAlone(t *testing.T) {
	bin, root := built(t), t.TempDir()
	check(t, makeHost(root))
	check(t, exec.Command(bin, "init", "--root", root).Run())
	d := serve(t, bin, root, "--scope", "ebb-test-none")
	hold := func(ctx context.Context, c *client.Client) (wire.ProofReply, error) {
		reply, err := c.Cordon(ctx, wire.CordonRequest{Who: "ann"})
		if err != nil {
			return wire.ProofReply{}, err
		}
		if _, err := c.Drain(ctx, wire.DrainRequest{Who: "ann", Drain: "d1", Epoch: 1, Deadline: time.Now().Add(time.Hour)}); err != nil {
			return wire.ProofReply{}, err
		}
		keys, err := c.Signer(ctx)
		if err != nil {
			return wire.ProofReply{}, err
		}
		return c.Proof(ctx, wire.ProofRequest{Drain: "d1", Epoch: 1, Machine: reply.Machine, Host: "demo/h1", Nonce: "n1",
			HostKey: keys.Keys[0].Fingerprint, Asserted: []byte(`{"claims":"` + strings.Repeat("0", 64) + `"}`)})
	}
	p, err := onSocket(t.Context(), root, wire.Operate, hold)
	check(t, err)
	_, err = onSocket(t.Context(), root, wire.Terminate, func(ctx context.Context, c *client.Client) (wire.SealReply, error) {
		machine := "5b1c0e4a9d7f4c2f8f4b7a8e9d0c1b2a"
		if _, err := c.Seal(ctx, wire.SealRequest{Who: "ann", Proof: p.Proof, Signature: p.Signature, Terminator: "poweroff", Machine: machine}); err != nil {
			return wire.SealReply{}, err
		}
		return c.Poweroff(ctx, wire.PoweroffRequest{Who: "ann", Drain: "d1", Machine: machine})
	})
	check(t, err)
	if err := d.cmd.Wait(); err != nil {
		t.Fatalf("the agent ended with %v\n%s", err, d.log.String())
	}
}

func TestNotifyReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	check(t, err)
	defer l.Close()
	c := command{env: func(name string) string { return map[string]string{"NOTIFY_SOCKET": path}[name] }}
	check(t, c.notifyReady())
	check(t, l.SetReadDeadline(time.Now().Add(5*time.Second)))
	buf := make([]byte, 64)
	n, err := l.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1" {
		t.Fatalf("%q %v", buf[:n], err)
	}
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatal("not seen in time")
		}
		select {
		case <-t.Context().Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}
