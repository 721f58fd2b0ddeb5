package levers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// NoticeBody is what a receiver gets, as JSON: a webhook in its body, a command
// on its standard input.
type NoticeBody struct {
	Act    string        `json:"act"` // unique: a receiver may get a notice twice
	Host   fleet.HostID  `json:"host"`
	Drain  string        `json:"drain"`
	For    fleet.Purpose `json:"for,omitempty"`
	Reason string        `json:"reason,omitempty"`
	By     string        `json:"by"`
	Kind   string        `json:"kind"`
	ID     string        `json:"id"`
	Owner  string        `json:"owner,omitempty"`
	Class  fleet.Class   `json:"class,omitempty"`
	TermAt time.Time     `json:"term_at"` // when TERM will be sent
	Grace  string        `json:"grace"`   // how long it then has
}

// Receiver takes notices.
type Receiver interface {
	Send(ctx context.Context, n NoticeBody) error
}

// Notice tells the owner of a workload what is about to happen to it.
type Notice struct {
	Receivers []Receiver
	Timeout   time.Duration // for each receiver; default 10s
}

// Do tells every receiver. One that accepts is enough; with none configured
// there is nobody to tell, and that is said.
func (l Notice) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	if len(l.Receivers) == 0 {
		return drain.Answer{Result: drain.Done, Detail: "no receiver is configured"}, nil
	}
	n := NoticeBody{Act: j.Act.ID, Host: j.Source.ID, Drain: j.Drain, For: j.For, Reason: j.Reason, By: j.By,
		Kind: j.Item.Key.Kind, ID: j.Item.Key.ID, Owner: j.Item.Owner, Class: j.Item.Class,
		TermAt: j.Act.At, Grace: j.Item.Budget.Grace.String()}
	timeout := l.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	var errs []error
	accepted := 0
	for _, r := range l.Receivers {
		rctx, cancel := context.WithTimeout(ctx, timeout)
		err := r.Send(rctx, n)
		cancel()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		accepted++
	}
	if accepted == 0 {
		return drain.Answer{Result: drain.FailedAct, Detail: errors.Join(errs...).Error()}, nil
	}
	return drain.Answer{Result: drain.Done, Detail: fmt.Sprintf("%d of %d receivers took it", accepted, len(l.Receivers))}, nil
}

// Status says that nothing is known: a notice may repeat.
func (l Notice) Status(context.Context, drain.Job) (drain.Answer, bool, error) {
	return drain.Answer{}, false, nil
}

// Webhook posts notices; any 2xx accepts.
type Webhook struct {
	URL    string
	Client *http.Client
}

// Send posts the notice.
func (w Webhook) Send(ctx context.Context, n NoticeBody) error {
	body, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("notice %s: %w", n.Act, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("notice webhook: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	client := w.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("notice webhook: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("notice webhook: %s answered %s", req.URL.Host, resp.Status)
	}
	return nil
}

// Command runs an executable that takes the notice on its standard input; exit
// status 0 accepts.
type Command struct{ Run []string }

// Send runs the command in a process group of its own, so that whatever it
// starts ends with it.
func (c Command) Send(ctx context.Context, n NoticeBody) error {
	body, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("notice %s: %w", n.Act, err)
	}
	cmd := exec.CommandContext(ctx, c.Run[0], c.Run[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Stdin = bytes.NewReader(body)
	var tail tailWriter
	cmd.Stderr, cmd.Stdout = &tail, io.Discard
	if err := cmd.Run(); err != nil {
		if said := strings.TrimSpace(tail.String()); said != "" {
			return fmt.Errorf("notice command %s: %w: %s", c.Run[0], err, said)
		}
		return fmt.Errorf("notice command %s: %w", c.Run[0], err)
	}
	return nil
}

// tailWriter keeps the last 1 KiB of what is written to it.
type tailWriter struct{ buf []byte }

func (t *tailWriter) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 1024 {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-1024:]...)
	}
	return len(p), nil
}

func (t *tailWriter) String() string { return string(t.buf) }
