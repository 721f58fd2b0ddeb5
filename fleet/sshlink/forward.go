package sshlink

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
)

// dialThrough opens a TCP connection from this host to another, for a
// connection whose jump host this is.
func (c *Conn) dialThrough(ctx context.Context, host string, port int) (net.Conn, error) {
	payload := ssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{host, uint32(port), "127.0.0.1", 0})
	conn, err := c.forward(ctx, "direct-tcpip", payload, hostAddr(joinHostPort(host, port)))
	if err != nil {
		return nil, fmt.Errorf("jump host %s: %w", c.target.Name, err)
	}
	return conn, nil
}

// DialUnix connects to a Unix socket of the host, as its user and by sshd itself,
// so that nothing has to be started there. Not every sshd does that for every key
// (AllowStreamLocalForwarding, DisableForwarding, "restrict"), and it does not say
// whether that is why it refuses, or that there is no such socket.
//
// The request is OpenSSH's own; its PROTOCOL file describes it.
func (c *Conn) DialUnix(ctx context.Context, path string) (net.Conn, error) {
	payload := ssh.Marshal(struct {
		Path     string
		Reserved string
		Unused   uint32
	}{Path: path})
	conn, err := c.forward(ctx, "direct-streamlocal@openssh.com", payload, socketAddr(path))
	if err != nil {
		return nil, fmt.Errorf("connect to %s on %s: %w", path, c.target.describe(), err)
	}
	return conn, nil
}

// forward opens a channel whose far end the host connects to remote.
func (c *Conn) forward(ctx context.Context, kind string, payload []byte, remote net.Addr) (net.Conn, error) {
	ch, reqs, err := c.open(ctx, kind, payload)
	if err != nil {
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) {
			return nil, errors.New(refused.Message)
		}
		return nil, err
	}
	d, err := newDuplex(c, ch, func(*duplex, int64) error { return nil })
	if err == nil {
		err = c.spawn(func() { ssh.DiscardRequests(reqs) })
	}
	if err != nil {
		return nil, err
	}
	return &tunnel{duplex: d, local: c.link.RemoteAddr(), remote: remote}, nil
}

// tunnel is a forwarded channel as a connection.
type tunnel struct {
	*duplex
	noDeadlines
	local, remote net.Addr
}

func (t *tunnel) LocalAddr() net.Addr  { return t.local }
func (t *tunnel) RemoteAddr() net.Addr { return t.remote }

// hostAddr is a name and port that another machine resolves.
type hostAddr string

func (a hostAddr) Network() string { return "tcp" }
func (a hostAddr) String() string  { return string(a) }

// socketAddr is a path on another machine.
type socketAddr string

func (a socketAddr) Network() string { return "unix" }
func (a socketAddr) String() string  { return string(a) }
