package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// Stamp is what a program sends before a picture: OSC 7770, the time since the
// beginning in milliseconds, BEL.
func Stamp(at time.Duration) string { return fmt.Sprintf("%s%d\a", stamp, at.Milliseconds()) }

const stamp = "\x1b]7770;"

// Take is what was sent for one picture.
type Take struct {
	At   time.Duration
	Data []byte
}

// Film is what a program sent, picture by picture.
type Film struct {
	Width, Height int
	Takes         []Take
}

// Run films a program until it ends.
func Run(ctx context.Context, cmd *exec.Cmd, width, height int) (Film, error) {
	f := Film{Width: width, Height: height}
	var errs bytes.Buffer
	cmd.Stderr = &errs // what goes wrong is no part of the film
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)})
	if err != nil {
		return f, fmt.Errorf("record: %w", err)
	}
	defer tty.Close()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	data, err := io.ReadAll(tty)
	if err != nil && !errors.Is(err, syscall.EIO) { // a terminal whose program has ended
		return f, errors.Join(fmt.Errorf("record: %w", err), cmd.Wait())
	}
	if err := cmd.Wait(); err != nil {
		return f, fmt.Errorf("record: %w: %s", err, errs.Bytes())
	}
	f.Takes, err = takes(data)
	return f, err
}

// takes parts what was sent at its stamps.
func takes(data []byte) ([]Take, error) {
	head, rest, ok := bytes.Cut(data, []byte(stamp))
	if !ok || len(head) > 0 {
		return nil, fmt.Errorf("record: the program sent %d bytes before its first stamp", len(head))
	}
	var out []Take
	for ok {
		var part []byte
		part, rest, ok = bytes.Cut(rest, []byte(stamp))
		ms, body, whole := bytes.Cut(part, []byte("\a"))
		n, err := strconv.ParseInt(string(ms), 10, 64)
		if err != nil || !whole {
			return nil, fmt.Errorf("record: a stamp that is none: %q", ms)
		}
		out = append(out, Take{time.Duration(n) * time.Millisecond, body})
	}
	return out, nil
}
