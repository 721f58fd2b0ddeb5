package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// A workload that serves answers HTTP: its name at /, a long answer at
// /stream?for=10s, how many of those are on their way at /metrics, and at /health
// whether it wants traffic, which it does until the host's command "unready".

// StreamEvery is the time between two lines of a long answer; its last line is
// "end".
const StreamEvery = 100 * time.Millisecond

// serve answers on a free port of loopback, which stands in a file, and on
// a socket that has the same name on every host, for a proxy that must know where
// a workload will be before it is there.
func serve(o RunOptions) (stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(portFile(o.Root, o.Spec), []byte(l.Addr().String()), 0o600); err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: pages(o), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }()
	sock := Socket(o.Root, o.Spec)
	_ = remove(sock)                                    // of one that was killed
	if l, err := net.Listen("unix", sock); err == nil { // a path can be too long for one
		go func() { _ = srv.Serve(l) }()
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx)
		_ = srv.Close()
		_ = os.Remove(portFile(o.Root, o.Spec))
	}, nil
}

func pages(o RunOptions) http.Handler {
	var running atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, o.Spec.ID+"\n") })
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if there(unreadyFile(o.Root, o.Spec)) {
			http.Error(w, "it wants no traffic", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "requests_running %d\nrequests_waiting 0\n", running.Load())
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		d, err := time.ParseDuration(r.FormValue("for"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Served-By", filepath.Base(o.Root))
		for n := range int(d / StreamEvery) {
			_, _ = fmt.Fprintln(w, n)
			_ = http.NewResponseController(w).Flush()
			if !pause(r.Context(), StreamEvery) {
				return
			}
		}
		_, _ = fmt.Fprintln(w, "end")
	})
	return mux
}

func portFile(root string, s Spec) string {
	return filepath.Join(root, "run", s.Kind+"-"+s.ID+".port")
}

// Socket is where a workload that serves also answers, on the host with that
// root.
func Socket(root string, s Spec) string {
	return strings.TrimSuffix(portFile(root, s), ".port") + ".sock"
}

// Address is where a workload that serves answers on loopback.
func Address(root string, s Spec) (string, error) {
	addr, err := os.ReadFile(portFile(root, s))
	if err == nil && len(addr) == 0 {
		err = errors.New("it is not up yet")
	}
	return string(addr), err
}

func unreadyFile(root string, s Spec) string {
	return strings.TrimSuffix(portFile(root, s), ".port") + ".unready"
}

// Unready is the command "unready": the workload says that it wants no traffic.
func Unready(root, kind, id string) error {
	return writeFile(unreadyFile(root, Spec{Kind: kind, ID: id}), "")
}
