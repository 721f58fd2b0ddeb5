package fleet

import "time"

// Offer is what a host says about the work it can take. A field that is empty is
// not said, and limits nothing.
//
//	[offer]
//	slots  = 40                       # workloads at once
//	gpus   = 8
//	kinds  = { notebook = 12 }        # of one kind
//	compat = { engine = "1.5", kernel = "6.8", cpu = "sapphire-rapids" }
//	labels = { zone = "a" }
type Offer struct {
	Slots  int               `json:"slots,omitempty" toml:"slots"`
	GPUs   int               `json:"gpus,omitempty" toml:"gpus"`
	Kinds  map[string]int    `json:"kinds,omitempty" toml:"kinds"`
	Compat map[string]string `json:"compat,omitempty" toml:"compat"`
	Labels map[string]string `json:"labels,omitempty" toml:"labels"`
}

// IsZero reports whether the host says nothing.
func (o Offer) IsZero() bool {
	return o.Slots == 0 && o.GPUs == 0 && len(o.Kinds) == 0 && len(o.Compat) == 0 && len(o.Labels) == 0
}

// Needs is what a workload asks of the host on which it goes on.
type Needs struct {
	Slots int `json:"slots,omitempty" toml:"slots"` // 0 is 1
	GPUs  int `json:"gpus,omitempty" toml:"gpus"`
	// Compat names what must be equal there. An empty version stands for that of
	// the host on which it runs now.
	Compat map[string]string `json:"compat,omitempty" toml:"compat"`
	Labels map[string]string `json:"labels,omitempty" toml:"labels"` // required of the host
	// Group is what should not share a host or a rack: replicas of one thing.
	Group string `json:"group,omitempty" toml:"group"`
}

// IsZero reports whether it asks for nothing but a place.
func (n Needs) IsZero() bool {
	return n.Slots == 0 && n.GPUs == 0 && len(n.Compat) == 0 && len(n.Labels) == 0 && n.Group == ""
}

// InFlight says where a serving workload tells how many requests it still has:
// the sum of gauges in a Prometheus text that the agent reads on loopback. It
// has none when every gauge read zero for the whole of a window.
type InFlight struct {
	URL    string        `json:"url" toml:"url"`
	Gauge  []string      `json:"gauge" toml:"gauge"`
	Window time.Duration `json:"window,omitempty" toml:"-"`
}
