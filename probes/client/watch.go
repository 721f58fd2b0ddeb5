package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"ebb/fleet"
	"ebb/probes/wire"
)

// Watch hands over the facts whenever they change, and with each heartbeat,
// until ctx ends, the connection breaks or f returns an error. The first call
// of f has everything, unless the agent is still at generation since. A change
// that does not follow the one before makes it read everything again.
func (c *Client) Watch(ctx context.Context, since uint64, f func(fleet.Facts) error) error {
	for {
		err := c.watchOnce(ctx, since, f)
		if !errors.Is(err, wire.ErrMissed) {
			return err
		}
		since = 0
	}
}

func (c *Client) watchOnce(ctx context.Context, since uint64, f func(fleet.Facts) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, wire.PathWatch, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var facts fleet.Facts
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
		if change.Full != nil && change.Generation == since {
			continue
		}
		if err := f(facts); err != nil {
			return err
		}
	}
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
