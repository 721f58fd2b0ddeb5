package agent

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ebb/fleet"
	"ebb/probes/wire"
)

// metrics are what a monitoring system may scrape from the observe socket.
type metrics struct {
	handler http.Handler
	scans   prometheus.Histogram
	acts    *prometheus.CounterVec
}

func newMetrics(a *Agent) *metrics {
	reg := prometheus.NewRegistry()
	m := &metrics{
		scans: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ebbd_scan_seconds", Help: "How long a full scan took.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		acts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ebbd_acts_total", Help: "Acts that have ended.",
		}, []string{"kind", "outcome"}),
	}
	reg.MustRegister(m.scans, m.acts, stateCollector{a})
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return m
}

func (m *metrics) scanned(took time.Duration) { m.scans.Observe(took.Seconds()) }

func (m *metrics) acted(kind wire.ActKind, ok bool) {
	outcome := "failed"
	if ok {
		outcome = "done"
	}
	m.acts.WithLabelValues(string(kind), outcome).Inc()
}

// stateCollector reads the facts when it is asked, so that a gauge never lags.
type stateCollector struct{ a *Agent }

var (
	heldDesc      = prometheus.NewDesc("ebbd_held", "Whether the hold is there.", []string{"hold"}, nil)
	ticketsDesc   = prometheus.NewDesc("ebbd_tickets_open", "Admissions nobody has settled.", nil, nil)
	workloadsDesc = prometheus.NewDesc("ebbd_workloads", "Workloads by class.", []string{"class"}, nil)
	probeDesc     = prometheus.NewDesc("ebbd_probe_ok", "Whether the probe answered, or does not apply.", []string{"probe"}, nil)
)

func (c stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{heldDesc, ticketsDesc, workloadsDesc, probeDesc} {
		ch <- d
	}
}

func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	f, s := c.a.Facts(), c.a.summary()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	gauge(heldDesc, flag(f.Holds.Cordon != nil), "cordon")
	gauge(heldDesc, flag(f.Holds.Drain != nil), "drain")
	gauge(heldDesc, flag(f.Sealed != ""), "seal")
	gauge(heldDesc, flag(f.Unheld), "unknown")
	gauge(ticketsDesc, float64(s.Tickets))
	for _, class := range fleet.Classes {
		gauge(workloadsDesc, float64(s.Classes[class]), class.String())
	}
	for _, p := range f.Probes() {
		gauge(probeDesc, flag(p.Status == fleet.OK || p.Status == fleet.NotApplicable), p.Name)
	}
}
