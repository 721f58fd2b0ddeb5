package agent

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"ebb/demo/balancer"
)

// asServer makes the test's own executable a server instead.
const asServer = "EBB_TEST_SERVER"

const piece = 50 * time.Millisecond

// serveAnswers streams answers of the length that is asked for, tells how many are in
// flight, and is healthy until a file says otherwise. It does not heed what is
// in flight when it gets TERM: that is not its part.
func serveAnswers(args []string) int {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.String("scope", "", "whose it is")
	id := flags.String("id", "", "its name")
	dir := flags.String("dir", "", "where the file lies that makes it unhealthy")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var running atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		length, err := time.ParseDuration(r.URL.Query().Get("for"))
		if err != nil {
			http.Error(w, "for", http.StatusBadRequest)
			return
		}
		w.Header().Set(balancer.ServedBy, *id)
		tick := time.NewTicker(piece)
		defer tick.Stop()
		for range int(length / piece) {
			fmt.Fprintln(w, "token")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
		fmt.Fprintln(w, "end")
	})
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(filepath.Join(*dir, *id+".not-ready")); err == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE requests_running gauge\nrequests_running{model=\"m\"} %d\n# TYPE requests_waiting gauge\nrequests_waiting 0\n", running.Load())
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(l, mux))
	return 1
}
