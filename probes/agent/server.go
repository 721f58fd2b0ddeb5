package agent

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// server speaks HTTP/1 and HTTP/2 without TLS: the sockets are local, and
// SSH has secured what comes from elsewhere.
func (a *Agent) server() *http.Server {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           a.handler(),
		Protocols:         &p,
		ConnContext:       withConn,
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    64 << 10,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: wire.PingEvery, PingTimeout: wire.PingPatience},
		ErrorLog:          slog.NewLogLogger(a.cfg.Log.Handler(), slog.LevelDebug),
	}
}

// call is one request that has passed the door.
type call struct {
	*http.Request
	caller Caller
}

// route is one path and method: what role it needs, and what answers. Roles
// lists alternatives; the answer is written as JSON unless it is nil.
type route struct {
	pattern string
	roles   []wire.Role
	answer  func(w http.ResponseWriter, r call) (any, error)
}

func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range a.routes() {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, rt) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, refuse(wire.CodeNotFound, "no such path: "+clip(r.URL.Path, 128)))
	})
	return mux
}

func (a *Agent) routes() []route {
	observe := []wire.Role{wire.Observe}
	cordon := []wire.Role{wire.Cordon}
	operate := []wire.Role{wire.Operate}
	terminate := []wire.Role{wire.Terminate}
	return []route{
		{"GET " + wire.PathSummary, observe, func(http.ResponseWriter, call) (any, error) { return a.summary(), nil }},
		{"GET " + wire.PathFacts, observe, a.serveFacts},
		{"GET " + wire.PathWatch, observe, a.serveWatch},
		{"GET " + wire.PathHolds, observe, func(http.ResponseWriter, call) (any, error) { return a.Facts().Holds, nil }},
		{"PUT " + wire.PathCordon, cordon, body(a.cordon)},
		{"DELETE " + wire.PathCordon, cordon, body(a.uncordon)},
		{"PUT " + wire.PathDrain, operate, body(a.drain)},
		{"DELETE " + wire.PathDrain, operate, body(a.undrain)},
		{"POST " + wire.PathEpoch, operate, body(a.announce)},
		{"POST " + wire.PathAdmission, []wire.Role{wire.Admission}, body(a.admit)},
		{"POST " + wire.PathTickets + "{id}", []wire.Role{wire.Admission, wire.Operate}, body2(func(r call, rep wire.TicketReport) (any, error) {
			return a.settle(r.caller, r.PathValue("id"), rep)
		})},
		{"POST " + wire.PathActs, operate, a.serveAct},
		{"GET " + wire.PathAct + "{id}", observe, a.serveFollow},
		{"POST " + wire.PathProof, []wire.Role{wire.Operate, wire.Terminate}, body2(func(r call, req wire.ProofRequest) (any, error) {
			return a.prove(r.Context(), r.caller, req)
		})},
		{"POST " + wire.PathAccept, terminate, body(a.accept)},
		{"POST " + wire.PathSeal, terminate, body2(func(r call, req wire.SealRequest) (any, error) {
			return a.seal(r.Context(), r.caller, req)
		})},
		{"DELETE " + wire.PathSeal, terminate, body(a.unseal)},
		{"POST " + wire.PathPoweroff, terminate, body(a.poweroff)},
		{"POST " + wire.PathRebind, operate, body(a.rebind)},
		{"GET " + wire.PathSigner, observe, func(http.ResponseWriter, call) (any, error) { return a.signerReply() }},
		{"GET " + wire.PathMetrics, observe, func(w http.ResponseWriter, r call) (any, error) {
			a.metrics.handler.ServeHTTP(w, r.Request)
			return nil, nil
		}},
	}
}

// serve is the door: the socket's role, then the call, whose panic ends that
// request only.
func (a *Agent) serve(w http.ResponseWriter, r *http.Request, rt route) {
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			a.cfg.Log.Error("request panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			writeProblem(w, errors.New("internal error"))
		}
	}()
	c := call{r, callerOf(r.Context(), r.Header.Get(wire.HeaderOperator))}
	w.Header().Set(wire.HeaderVersion, a.cfg.Version)
	allowed := false
	for _, need := range rt.roles {
		allowed = allowed || c.caller.Role.Covers(need)
	}
	if !allowed {
		writeProblem(w, forbidden(c.caller.Role, rt.roles[0]))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, wire.MaxBody)
	answer, err := rt.answer(w, c)
	switch {
	case err != nil:
		writeProblem(w, err)
	case answer != nil:
		writeJSON(w, http.StatusOK, answer)
	}
}

// body reads the request of a call and answers with what do returns.
func body[Q, R any](do func(Caller, Q) (R, error)) func(http.ResponseWriter, call) (any, error) {
	return body2(func(r call, req Q) (any, error) { return do(r.caller, req) })
}

func body2[Q any](do func(call, Q) (any, error)) func(http.ResponseWriter, call) (any, error) {
	return func(_ http.ResponseWriter, r call) (any, error) {
		var req Q
		if err := readBody(r.Body, &req); err != nil {
			return nil, err
		}
		return do(r, req)
	}
}

// readBody takes one JSON object and nothing unknown: a field that this agent
// does not know may be one that would have held it back.
func readBody(b io.Reader, v any) error {
	dec := json.NewDecoder(b)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return refuse(wire.CodeBadRequest, "request: "+err.Error())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refuse(wire.CodeBadRequest, "request: data after the object")
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller is gone
}

func writeProblem(w http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{http.StatusInternalServerError, wire.Problem{Code: "failed", Error: err.Error()}}
	}
	if r.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(wire.RetryAfter))
	}
	writeJSON(w, r.status, r.problem)
}

func (a *Agent) serveFacts(w http.ResponseWriter, r call) (any, error) {
	f := a.Facts()
	if on(r.URL.Query().Get("fresh")) || f.Processes.Status == fleet.Unknown {
		fresh, err := a.fresh(r.Context())
		if err != nil {
			return nil, err
		}
		f = fresh
	}
	b, err := a.shared.encoded(f, r.caller.Role)
	if err == nil {
		writeEncoded(w, b)
	}
	return nil, err
}

func on(v string) bool { return v != "" && v != "0" && v != "false" }

func (a *Agent) serveAct(w http.ResponseWriter, r call) (any, error) {
	var req wire.ActRequest
	if err := readBody(r.Body, &req); err != nil {
		return nil, err
	}
	reply, err := a.begin(r.caller, req)
	if err != nil {
		return nil, err
	}
	writeJSON(w, http.StatusAccepted, reply)
	return nil, nil
}

func (a *Agent) serveFollow(_ http.ResponseWriter, r call) (any, error) {
	var wait time.Duration
	if s := r.URL.Query().Get("wait"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || strings.HasPrefix(s, "-") {
			return nil, refuse(wire.CodeBadRequest, "wait: want a duration")
		}
		wait = d
	}
	return a.follow(r.Context(), r.PathValue("id"), wait)
}
