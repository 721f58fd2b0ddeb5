package sshlink

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// The system's sshd connects us to a socket of its host, and ends what we open
// when either side does.
func TestRealDialUnix(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	p := c.pool(t, "", s.line(t, 0, s.name()), Options{})
	conn := mustConn(t, p, s.address())
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan string, 1)
	go func() {
		far, err := l.Accept()
		if err != nil {
			heard <- err.Error()
			return
		}
		defer far.Close()
		fmt.Fprintln(far, "hello")
		b, _ := io.ReadAll(far)
		heard <- string(b)
	}()

	near, err := conn.DialUnix(testContext(t), path)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if near.RemoteAddr().Network() != "unix" || near.RemoteAddr().String() != path {
		t.Errorf("the far end is %v", near.RemoteAddr())
	}
	if line, err := bufio.NewReader(near).ReadString('\n'); line != "hello\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	fmt.Fprint(near, "and good bye")
	near.Close()
	if got := <-heard; got != "and good bye" {
		t.Errorf("the host heard %q", got)
	}

	_, err = conn.DialUnix(testContext(t), path+"-that-is-not-there")
	if err == nil || !strings.Contains(err.Error(), "that-is-not-there") {
		t.Errorf("no socket there: %v", err)
	}
}
