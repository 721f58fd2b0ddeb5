package levers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Webhook posts notices; any 2xx accepts. It follows no redirection: a POST that
// becomes a GET on the way would be accepted by whoever never got the notice.
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
		return errors.New("notice webhook: its URL can't be used")
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{}
	if w.Client != nil {
		client = *w.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		var whole *url.Error // its text has the URL in it, and that may be a secret
		if errors.As(err, &whole) {
			err = whole.Err
		}
		return fmt.Errorf("notice webhook %s: %w", req.URL.Host, err)
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
	if len(c.Run) == 0 {
		return errors.New("notice command: none is named")
	}
	cmd := exec.CommandContext(ctx, c.Run[0], c.Run[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Stdin = bytes.NewReader(body)
	var tail tailWriter
	cmd.Stderr = &tail
	// What it leaves running in the background keeps its standard error open; that
	// is no reason to call the notice refused.
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
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
