package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// sshServer is a demo host's SSH server: one key may log in, and the only
// command it runs is ebbd dial-stdio, with the host's root.
type sshServer struct {
	host     *Host
	config   *ssh.ServerConfig
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// serveSSH starts the host's SSH server on a free port of loopback.
func (h *Host) serveSSH(user ssh.PublicKey) error {
	pemKey, err := os.ReadFile(h.keyFile())
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	signer, err := ssh.ParsePrivateKey(pemKey)
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	want := string(user.Marshal())
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != want {
				return nil, errors.New("unknown key")
			}
			return nil, nil
		},
	}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &sshServer{host: h, config: config, listener: l, ctx: ctx, cancel: cancel, conns: map[net.Conn]bool{}}
	h.Addr, h.sshd = l.Addr().String(), s
	s.wg.Go(s.accept)
	return nil
}

func (s *sshServer) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// serve speaks SSH on one connection until it ends.
func (s *sshServer) serve(c net.Conn) {
	defer c.Close()
	conn, channels, requests, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return
	}
	defer conn.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for r := range requests { // keepalives among them: any answer is an answer
			if r.WantReply {
				_ = r.Reply(false, nil)
			}
		}
	})
	for ch := range channels {
		if ch.ChannelType() != "session" {
			_ = ch.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		session, reqs, err := ch.Accept()
		if err != nil {
			continue
		}
		wg.Go(func() { s.session(session, reqs) })
	}
}

// session runs the one command that is allowed.
func (s *sshServer) session(ch ssh.Channel, reqs <-chan *ssh.Request) {
	defer ch.Close()
	for r := range reqs {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var exec struct{ Command string }
		if err := ssh.Unmarshal(r.Payload, &exec); err != nil {
			_ = r.Reply(false, nil)
			return
		}
		_ = r.Reply(true, nil)
		go func() {
			for r := range reqs {
				if r.WantReply {
					_ = r.Reply(false, nil)
				}
			}
		}()
		status := s.run(ch, exec.Command)
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}

func (s *sshServer) run(ch ssh.Channel, command string) uint32 {
	words := strings.Fields(command)
	if len(words) == 0 || words[0] != "ebbd" || !slices.Contains(words, "dial-stdio") {
		fmt.Fprintf(ch.Stderr(), "demo host %s: only ebbd dial-stdio runs here\n", s.host.Name)
		return 126
	}
	cmd := exec.CommandContext(s.ctx, s.host.fleet.Agent, append(words[1:], "--root", s.host.Dir)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(ch.Stderr(), err)
		return 127
	}
	go func() {
		_, _ = io.Copy(in, ch)
		_ = in.Close()
	}()
	if err := cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			return uint32(exit.ExitCode())
		}
		return 1
	}
	return 0
}

// close ends the server and everything that runs through it.
func (s *sshServer) close() {
	_ = s.listener.Close()
	s.cancel()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
