package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"ebb/probes/agent"
	"ebb/probes/wire"
)

func (c command) dialStdio() *cobra.Command {
	var h hostFlags
	var role string
	cmd := &cobra.Command{
		Use: "dial-stdio --role ROLE", Short: "connect standard input and output to the agent", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := c.dial(cmd.Context(), h, wire.Role(role))
			if err != nil {
				// The console reads this stream, and may not see the other one.
				hint := ""
				if e := (*exit)(nil); errors.As(err, &e) && e.hint != "" {
					hint = "; try there: " + e.hint
				}
				fmt.Fprintf(c.out, "ebbd: %v%s\n", err, hint)
			}
			return err
		},
	}
	h.register(cmd)
	cmd.Flags().StringVar(&role, "role", string(wire.Observe), "one of "+roleNames())
	return cmd
}

func (c command) dial(ctx context.Context, flags hostFlags, role wire.Role) error {
	if !role.Valid() {
		return &exit{status: 2, err: fmt.Errorf("role %q: want one of %s", role, roleNames())}
	}
	if err := allowed(role, c.env("SSH_ORIGINAL_COMMAND")); err != nil {
		return &exit{status: 3, err: err}
	}
	h, broken := flags.find()
	machine, _, _, err := h.identity()
	if err != nil {
		return err
	}
	conn, err := agent.DialSocket(ctx, h.socket(role))
	if err != nil && broken != nil {
		return broken
	}
	if err != nil {
		return noSocket(role, err)
	}
	defer conn.Close()
	if err := wire.WritePreface(conn, wire.Preface{Claimed: c.claimed()}); err != nil {
		return err
	}
	if err := wire.WriteHello(c.out, wire.Hello{Proto: wire.Proto, Version: versionText(), Role: role, Machine: machine}); err != nil {
		return err
	}
	return pump(ctx, conn, c.in, c.out)
}

// allowed checks what was asked for against a role that the key is bound to:
// sshd runs the key's own command and passes on what was asked for. The key's
// role stands if it covers that.
func allowed(forced wire.Role, original string) error {
	if original == "" {
		return nil
	}
	asked, ok := askedRole(original)
	switch {
	case !ok:
		return fmt.Errorf("this key is for ebbd with role %s only", forced)
	case forced.Covers(asked):
		return nil
	}
	return fmt.Errorf("this key is bound to role %s, and the call needs %s", forced, asked)
}

// askedRole finds the role in a command line like "ebbd dial-stdio --role R",
// which may begin with sudo and a path.
func askedRole(line string) (wire.Role, bool) {
	words := strings.Fields(line)
	stdio := false
	for i, w := range words {
		w = strings.Trim(w, `'"`)
		if w == "dial-stdio" {
			stdio = true
		}
		role, ok := strings.CutPrefix(w, "--role=")
		if !ok && w == "--role" && i+1 < len(words) {
			role, ok = strings.Trim(words[i+1], `'"`), true
		}
		if ok && stdio {
			return wire.Role(role), wire.Role(role).Valid()
		}
	}
	return wire.Observe, stdio
}

func noSocket(role wire.Role, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &exit{status: 3, err: fmt.Errorf("you are not allowed role %s on this host: %w", role, err),
			hint: "the group and mode of its socket decide; see [roles] in ebbd.toml"}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return &exit{status: 1, err: fmt.Errorf("the agent is not running on this host: %w", err), hint: "systemctl start ebbd"}
	}
	return fmt.Errorf("connect to the agent: %w", err)
}

// claimed is what sshd says about the caller. It is recorded as said.
func (c command) claimed() wire.Claimed {
	claimed := wire.Claimed{Operator: c.env("EBB_OPERATOR"), SSH: c.env("SSH_CONNECTION")}
	if file := c.env("SSH_USER_AUTH"); file != "" {
		if b, err := os.ReadFile(file); err == nil {
			claimed.Key = keyFingerprint(string(b))
		}
	}
	return claimed
}

// keyFingerprint reads the file that sshd's ExposeAuthInfo writes:
//
//	publickey ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI…
func keyFingerprint(auth string) string {
	for line := range strings.Lines(auth) {
		rest, ok := strings.CutPrefix(line, "publickey ")
		if !ok {
			continue
		}
		if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(rest)); err == nil {
			return ssh.FingerprintSHA256(key)
		}
	}
	return ""
}

// pump copies both ways until the agent's side ends, or the process is told to.
func pump(ctx context.Context, conn net.Conn, in io.Reader, out io.Writer) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	go func() {
		// Ends with the process at the latest: a read of standard input can't be
		// interrupted.
		_, _ = io.Copy(conn, in)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err := io.Copy(out, conn)
	if errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
