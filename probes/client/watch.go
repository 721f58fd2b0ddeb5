package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"ebb/fleet"
	"ebb/probes/wire"
)

// Watch hands over the facts whenever they change, and with each heartbeat,
// until ctx ends, the connection breaks or f returns an error. The first call of
// f has everything: what the agent tells, or have, which the caller knows from
// before, with what has changed since; have may be zero. A change that does not
// follow the one before makes it read everything again.
func (c *Client) Watch(ctx context.Context, have fleet.Facts, f func(fleet.Facts) error) error {
	for {
		err := c.watchOnce(ctx, have, f)
		if !errors.Is(err, wire.ErrMissed) {
			return err
		}
		have = fleet.Facts{}
	}
}

func (c *Client) watchOnce(ctx context.Context, facts fleet.Facts, f func(fleet.Facts) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, watchPath(facts), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := readLine(lines)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		var change wire.Change
		if err := json.Unmarshal(line, &change); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if facts, err = wire.Apply(facts, change); err != nil {
			return err
		}
		if err := f(facts); err != nil {
			return err
		}
	}
}

// watchPath asks for what has changed since facts that are known.
func watchPath(have fleet.Facts) string {
	q := url.Values{"by": {"key"}}
	if have.Generation != 0 && !have.Agent.Started.IsZero() {
		q.Set("since", strconv.FormatUint(have.Generation, 10))
		q.Set("started", strconv.FormatInt(have.Agent.Started.UnixNano(), 10))
	}
	return wire.PathWatch + "?" + q.Encode()
}

// readLine reads one line of any length up to the limit of an answer.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		case len(line) > maxAnswer:
			return nil, errors.New("the agent's line is too long")
		}
	}
}
