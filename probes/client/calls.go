package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// Summary asks for the few hundred bytes by which a fleet is watched.
func (c *Client) Summary(ctx context.Context) (fleet.Summary, error) {
	return get[fleet.Summary](ctx, c, wire.PathSummary)
}

// Facts asks for everything; fresh has the agent look anew first.
func (c *Client) Facts(ctx context.Context, fresh bool) (fleet.Facts, error) {
	path := wire.PathFacts
	if fresh {
		path += "?fresh=1"
	}
	return get[fleet.Facts](ctx, c, path)
}

// Holds asks what holds the host.
func (c *Client) Holds(ctx context.Context) (fleet.Holds, error) {
	return get[fleet.Holds](ctx, c, wire.PathHolds)
}

// Cordon sets the cordon.
func (c *Client) Cordon(ctx context.Context, r wire.CordonRequest) (wire.HoldReply, error) {
	return call[wire.HoldReply](ctx, c, http.MethodPut, wire.PathCordon, r)
}

// Uncordon lifts the cordon and nothing else.
func (c *Client) Uncordon(ctx context.Context, r wire.LiftRequest) (wire.HoldReply, error) {
	return call[wire.HoldReply](ctx, c, http.MethodDelete, wire.PathCordon, r)
}

// Drain sets or renews the drain hold.
func (c *Client) Drain(ctx context.Context, r wire.DrainRequest) (wire.HoldReply, error) {
	return call[wire.HoldReply](ctx, c, http.MethodPut, wire.PathDrain, r)
}

// Undrain lifts the drain hold and nothing else.
func (c *Client) Undrain(ctx context.Context, r wire.LiftRequest) (wire.HoldReply, error) {
	return call[wire.HoldReply](ctx, c, http.MethodDelete, wire.PathDrain, r)
}

// Epoch announces a driver's epoch; 0 asks for the highest one seen.
func (c *Client) Epoch(ctx context.Context, r wire.EpochRequest) (wire.EpochReply, error) {
	return call[wire.EpochReply](ctx, c, http.MethodPost, wire.PathEpoch, r)
}

// Admit asks whether the host takes something.
func (c *Client) Admit(ctx context.Context, r wire.AdmissionRequest) (wire.AdmissionReply, error) {
	return call[wire.AdmissionReply](ctx, c, http.MethodPost, wire.PathAdmission, r)
}

// Settle closes a ticket.
func (c *Client) Settle(ctx context.Context, ticket string, r wire.TicketReport) (fleet.Ticket, error) {
	return call[fleet.Ticket](ctx, c, http.MethodPost, wire.PathTickets+url.PathEscape(ticket), r)
}

// Act begins an act. It is answered at once, or with the outcome where the id
// has run before.
func (c *Client) Act(ctx context.Context, r wire.ActRequest) (wire.ActReply, error) {
	return call[wire.ActReply](ctx, c, http.MethodPost, wire.PathActs, r)
}

// Follow waits for an act to end, at most for wait (a minute at a time).
func (c *Client) Follow(ctx context.Context, id string, wait time.Duration) (wire.ActReply, error) {
	return get[wire.ActReply](ctx, c, wire.PathAct+url.PathEscape(id)+"?wait="+wait.String())
}

// Proof has the agent look anew and sign what it finds.
func (c *Client) Proof(ctx context.Context, r wire.ProofRequest) (wire.ProofReply, error) {
	return call[wire.ProofReply](ctx, c, http.MethodPost, wire.PathProof, r)
}

// Accept makes an exception.
func (c *Client) Accept(ctx context.Context, r wire.AcceptRequest) (fleet.Accepted, error) {
	return call[fleet.Accepted](ctx, c, http.MethodPost, wire.PathAccept, r)
}

// Seal has the agent confirm a proof and refuse everything from then on.
func (c *Client) Seal(ctx context.Context, r wire.SealRequest) (wire.SealReply, error) {
	return call[wire.SealReply](ctx, c, http.MethodPost, wire.PathSeal, r)
}

// Unseal lifts the seal and nothing else.
func (c *Client) Unseal(ctx context.Context, r wire.LiftRequest) (wire.SealReply, error) {
	return call[wire.SealReply](ctx, c, http.MethodDelete, wire.PathSeal, r)
}

// Poweroff ends a sealed host.
func (c *Client) Poweroff(ctx context.Context, r wire.PoweroffRequest) (wire.SealReply, error) {
	return call[wire.SealReply](ctx, c, http.MethodPost, wire.PathPoweroff, r)
}

// Rebind tells the host that its name is bound to its machine.
func (c *Client) Rebind(ctx context.Context, r wire.RebindRequest) (wire.RebindReply, error) {
	return call[wire.RebindReply](ctx, c, http.MethodPost, wire.PathRebind, r)
}

// Signer lists the SSH host keys that the agent can sign with.
func (c *Client) Signer(ctx context.Context) (wire.SignerReply, error) {
	return get[wire.SignerReply](ctx, c, wire.PathSigner)
}

// Metrics returns the agent's metrics as Prometheus text.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	resp, err := c.send(ctx, http.MethodGet, wire.PathMetrics, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return string(b), err
}

// maxAnswer bounds what is read from an agent: a host must not be able to fill
// the console's memory.
const maxAnswer = 64 << 20

func get[R any](ctx context.Context, c *Client, path string) (R, error) {
	return call[R](ctx, c, http.MethodGet, path, nil)
}

func call[R any](ctx context.Context, c *Client, method, path string, body any) (R, error) {
	var out R
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&out); err != nil {
		return out, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return out, nil
}

// send makes one request. What is not a success is returned as a *Problem.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://ebbd"+path, r)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.opts.Operator != "" {
		req.Header.Set(wire.HeaderOperator, headerText(c.opts.Operator))
	}
	if c.opts.Version != "" {
		req.Header.Set(wire.HeaderVersion, headerText(c.opts.Version))
	}
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	p := &Problem{Status: resp.StatusCode}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if json.Unmarshal(raw, &p.Problem) != nil {
		p.Problem = wire.Problem{Code: "failed", Error: lastLine(raw)}
	}
	return nil, p
}

// headerText makes a name fit for a header.
func headerText(s string) string {
	b := []byte(plain(s))
	for i, ch := range b {
		if ch >= 0x80 {
			b[i] = '?'
		}
	}
	return string(b)
}
