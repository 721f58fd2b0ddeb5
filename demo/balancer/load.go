package balancer

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// ServedBy is the header in which a server names itself.
const ServedBy = "X-Served-By"

// Load is clients that each ask again as soon as they have been answered.
type Load struct {
	url   string
	every time.Duration
	http  *http.Client
	end   func()

	mu     sync.Mutex
	whole  map[string]int // answers that were, by server
	broken []string
}

// Begin starts clients that ask at a URL until Stop: a third of them for the longest
// answers, the others for short ones. every is the time between two lines of an
// answer.
func Begin(url string, clients int, longest, every time.Duration) *Load {
	l := &Load{url: url, every: every, whole: map[string]int{}, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-stop:
					return
				default:
				}
				d := time.Duration(turn%10) * longest / 50
				if i%3 == 0 {
					d = longest
				}
				if l.ask(d) != nil {
					time.Sleep(100 * time.Millisecond) // no storm of what is refused
				}
			}
		})
	}
	l.end = sync.OnceFunc(func() { close(stop); wg.Wait(); l.http.CloseIdleConnections() })
	return l
}

// Stop lets no client ask again, and waits for what is in flight.
func (l *Load) Stop() { l.end() }

func (l *Load) ask(d time.Duration) error {
	server, err := Ask(context.Background(), l.http, l.url, d, l.every)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.broken = append(l.broken, fmt.Sprintf("%s, %s: %v", server, d, err))
	} else {
		l.whole[server]++
	}
	return err
}

// Count is how many whole answers a server has given.
func (l *Load) Count(server string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole[server]
}

// Whole counts the whole answers by server.
func (l *Load) Whole() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.whole)
}

// Broken are the answers that were refused or cut.
func (l *Load) Broken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.broken)
}

// Ask reads one answer of a length to its end, and says which server gave it.
func Ask(ctx context.Context, c *http.Client, url string, d, every time.Duration) (server string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/stream?for="+d.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", fmt.Errorf("refused: %w", err)
	}
	defer resp.Body.Close()
	server = resp.Header.Get(ServedBy)
	if resp.StatusCode != http.StatusOK {
		return server, fmt.Errorf("refused: %s", resp.Status)
	}
	lines, last := 0, ""
	sc := bufio.NewScanner(resp.Body)
	for sc.Scan() {
		lines, last = lines+1, sc.Text()
	}
	if want := int(d/every) + 1; sc.Err() != nil || last != "end" || lines != want {
		return server, fmt.Errorf("cut after %d of %d lines: %v", lines, want, sc.Err())
	}
	return server, nil
}
