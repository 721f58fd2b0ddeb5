package sshlink

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
)

const clientVersion = "SSH-2.0-ebb"

// connect reaches t, directly or through via, and authenticates both sides.
func connect(ctx context.Context, t Target, via *Conn, dial DialFunc, l limits) (*Conn, error) {
	v, err := newVerifier(t)
	if err != nil {
		return nil, err
	}
	// Before the host is dialled: the time to log in is short, and an agent slow.
	keys := openKeyring(ctx, t)
	defer keys.close()
	var link net.Conn
	if via != nil {
		link, err = via.dialThrough(ctx, t.Host, t.Port)
	} else {
		link, err = dial(ctx, "tcp", t.Address())
	}
	if err != nil {
		return nil, &DialError{Target: t, Op: "connect", Err: err}
	}

	// The handshake knows no context: its end takes the connection away.
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		link.Close()
	})
	var atAuth atomic.Bool
	client, chans, reqs, err := ssh.NewClientConn(link, t.Address(), &ssh.ClientConfig{
		User:              t.User,
		ClientVersion:     clientVersion,
		HostKeyCallback:   v.callback,
		HostKeyAlgorithms: v.algorithms(),
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			atAuth.Store(true)
			return keys.signers(), nil
		})},
	})
	if !stop() {
		<-cut
		if err == nil {
			client.Close()
		}
		return nil, &DialError{Target: t, Op: "handshake", Err: context.Cause(ctx)}
	}
	key, refused := v.verdict()
	switch {
	case err == nil:
		return newConn(t, l, link, client, key, chans, reqs), nil
	case refused != nil:
		return nil, refused
	case authFailed(err, atAuth.Load()):
		return nil, keys.failure(t, errors.Unwrap(err))
	}
	return nil, &DialError{Target: t, Op: "handshake", Err: err}
}

// authFailed tells a server that wants none of our keys from a connection that
// broke while we were showing them.
func authFailed(err error, atAuth bool) bool {
	if strings.Contains(err.Error(), "unable to authenticate") {
		return true
	}
	var broken net.Error
	return atAuth && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!errors.Is(err, net.ErrClosed) && !errors.As(err, &broken)
}
