package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"

	"ebb/probes/wire"
)

const (
	quietWindow  = 5 * time.Second
	quietTimeout = 20 * time.Minute
	quietMax     = 24 * time.Hour
	quietEvery   = 250 * time.Millisecond // between the end of a reading and the next
	quietGap     = 500 * time.Millisecond // a longer time without a reading begins the window anew
	readTimeout  = 2 * time.Second
	gaugesMax    = 1 << 20 // bytes of a Prometheus text
)

func checkQuiet(req wire.ActRequest) error {
	if req.Drain == "" {
		return refuse(wire.CodeBadRequest, "this act needs a drain")
	}
	if err := checkLoopback(req.URL); err != nil {
		return refuse(wire.CodeBadRequest, "url: "+err.Error())
	}
	if len(req.Gauges) == 0 || len(req.Gauges) > 64 {
		return refuse(wire.CodeBadRequest, "gauges: name 1 to 64 gauges that count requests")
	}
	for i, g := range req.Gauges {
		if !model.LegacyValidation.IsValidMetricName(g) || len(g) > maxID || slices.Contains(req.Gauges[:i], g) {
			return refuse(wire.CodeBadRequest, "gauges: a name is invalid or stands twice")
		}
	}
	if req.Window < 0 || req.Timeout < 0 || req.Window > quietMax || req.Timeout > quietMax {
		return refuse(wire.CodeBadRequest, "window and timeout: want 0 to 24h")
	}
	return nil
}

// checkLoopback wants a plain http address on this host. Names other than
// localhost would be resolved, and could lead anywhere.
func checkLoopback(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || len(raw) > 2048 {
		return errors.New("it is not a URL")
	}
	if u.Scheme != "http" || u.User != nil || u.Opaque != "" || u.Fragment != "" {
		return errors.New("want http://127.0.0.1:PORT/…, without a user")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("the port is none")
		}
	}
	if u.Hostname() == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err != nil || !isLoopback(ip) {
		return errors.New("only this host's own loopback is read: 127.0.0.0/8, [::1] or localhost")
	}
	return nil
}

func isLoopback(ip netip.Addr) bool { return ip.IsLoopback() && ip.Zone() == "" && !ip.Is4In6() }

// gaugeReader reads one address. Each reading has a connection of its own: the
// agent holds none open, which a server might count as a request.
func gaugeReader() *http.Client {
	dial := &net.Dialer{Timeout: readTimeout}
	return &http.Client{
		Timeout:       readTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				host, port, err := net.SplitHostPort(addr)
				if err != nil {
					return nil, err
				}
				if host != "localhost" {
					return dial.DialContext(ctx, network, addr)
				}
				// No resolver is asked what localhost is.
				c, err := dial.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
				if err != nil {
					if c, e := dial.DialContext(ctx, network, net.JoinHostPort("::1", port)); e == nil {
						return c, nil
					}
				}
				return c, err
			},
		},
	}
}

// readGauges makes one reading. Its errors name what happened and quote nothing
// that the server said.
func readGauges(ctx context.Context, c *http.Client, addr string, names []string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, addr, nil)
	if err != nil {
		return 0, errors.New("it is not a URL")
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	resp, err := c.Do(req)
	if err != nil {
		return 0, fmt.Errorf("unreachable: %w", reachError(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("it answers with status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, gaugesMax+1))
	if err != nil {
		return 0, fmt.Errorf("the answer was cut: %w", reachError(err))
	}
	if len(text) > gaugesMax {
		return 0, errors.New("the answer is larger than 1 MiB")
	}
	return sumGauges(text, names)
}

// reachError says that a server could not be read, without its words.
func reachError(err error) error {
	var sys *net.OpError
	var t net.Error
	switch {
	case errors.As(err, &t) && t.Timeout():
		return fmt.Errorf("no answer within %v", readTimeout)
	case errors.As(err, &sys):
		return sys.Err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ended too early")
	}
	return errors.New("not an HTTP answer")
}

// stillness is the judgement over readings, as a value: for how long nothing
// has been in flight for certain. Times are on CLOCK_BOOTTIME.
type stillness struct {
	quiet   bool          // the last reading was zero
	since   time.Duration // end of the first reading of zero in a row
	seen    time.Duration // end of the last reading
	zero    time.Duration // from since to the beginning of the last reading
	sum     float64
	was     float64
	unknown error
}

// next takes in a reading that lasted from begun to ended. What is between two
// readings further apart than quietGap is not known to have been quiet.
func (s stillness) next(sum float64, err error, begun, ended time.Duration) stillness {
	gap := s.quiet && begun-s.seen > quietGap
	s.sum, s.unknown, s.seen = sum, err, ended
	switch {
	case err != nil || sum != 0:
		s.quiet, s.zero = false, 0
	case !s.quiet || gap:
		s.quiet, s.since, s.zero = true, ended, 0
	default:
		s.zero = max(0, begun-s.since)
	}
	if err == nil {
		s.was = max(s.was, sum)
	}
	return s
}

func (s stillness) progress(now time.Time) *wire.Progress {
	p := &wire.Progress{InFlight: s.sum, Was: s.was, Zero: s.zero, At: now}
	if s.unknown != nil {
		p.InFlight, p.Unknown = 0, s.unknown.Error()
	}
	return p
}

func (s stillness) detail() string {
	switch {
	case s.unknown != nil:
		return "not known how many requests are in flight: " + s.unknown.Error()
	case s.quiet:
		return fmt.Sprintf("nothing in flight for %v, was %s", s.zero.Round(100*time.Millisecond), count(s.was))
	case s.sum == 1:
		return "1 request in flight, was " + count(s.was)
	}
	return fmt.Sprintf("%s requests in flight, was %s", count(s.sum), count(s.was))
}

func count(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// quiet reads until nothing has been in flight for the whole window.
func (a *Agent) quiet(ctx context.Context, req wire.ActRequest, reply *wire.ActReply) error {
	window, timeout := req.Window, req.Timeout
	if window == 0 {
		window = a.cfg.scaled(quietWindow)
	}
	if timeout == 0 {
		timeout = quietTimeout
	}
	reader, clock := gaugeReader(), a.cfg.Clock
	defer reader.CloseIdleConnections()
	late := time.NewTimer(timeout)
	defer late.Stop()
	var s stillness
	for {
		if err := a.heldBy(req.Drain); err != nil {
			reply.Detail = ""
			return err
		}
		begun := clock.Boottime()
		sum, err := readGauges(ctx, reader, req.URL, req.Gauges)
		if ctx.Err() != nil {
			return errEnding
		}
		s = s.next(sum, err, begun, clock.Boottime())
		reply.Progress, reply.Detail = s.progress(clock.Now()), s.detail()
		if s.quiet && s.zero >= window {
			return a.heldBy(req.Drain)
		}
		a.report(req.ID, *reply)
		wait := time.NewTimer(quietEvery)
		select {
		case <-wait.C:
		case <-late.C:
			wait.Stop()
			return s.gaveUp()
		case <-ctx.Done():
			wait.Stop()
			return errEnding
		}
	}
}

func (s stillness) gaveUp() error {
	if s.unknown != nil {
		return refuse(wire.ReasonUnknown, s.detail()).arg("error", s.unknown.Error())
	}
	return refuse(wire.ReasonBusy, s.detail()).arg("in_flight", count(s.sum)).arg("was", count(s.was))
}

// heldBy ends an act once its drain no longer holds the host: what would be seen
// from then on proves nothing. A newer driver of the drain takes the act over.
func (a *Agent) heldBy(drain string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.notSealed(); err != nil {
		return err
	}
	if h := a.rec.Holds.Drain; h == nil || h.Drain != drain {
		return refuse(wire.CodeNotHeld, "drain "+drain+" does not hold this host any more")
	}
	return nil
}

// report shows how far an act that is under way has come.
func (a *Agent) report(id string, so wire.ActReply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if act := a.acts.byID[id]; act != nil && act.reply.State == wire.ActBegun {
		act.reply.Detail, act.reply.Progress = so.Detail, so.Progress
	}
}
