package boardview

import (
	"fmt"

	"ebb/drain"
	"ebb/fleet"
)

// gpusOf counts for each workload the GPUs that are its own: those that its owner
// or the probe names, else those that one of its processes holds.
func gpusOf(v fleet.HostView) map[fleet.Key]int {
	out := map[fleet.Key]int{}
	f, ok := v.Facts.Get()
	if !ok {
		return out
	}
	holders := map[fleet.Run]int{}
	if f.GPUs.Status == fleet.OK {
		for _, g := range f.GPUs.Value {
			for _, r := range g.Holders {
				holders[r]++
			}
		}
	}
	for _, fi := range v.Findings {
		switch {
		case fi.Workload != nil && len(fi.Workload.GPUs) > 0:
			out[fi.Key] = len(fi.Workload.GPUs)
		case fi.Workload != nil:
			n := 0
			for _, r := range fi.Workload.Runs {
				n = max(n, holders[r]) // processes of one workload share them
			}
			out[fi.Key] = max(n, holders[fi.Workload.Run])
		case fi.Process != nil:
			out[fi.Key] = holders[fi.Process.Run]
		}
	}
	return out
}

// gpus is how many GPUs a workload has, in words; "" for none or where it is not
// known.
func (d *drawing) gpus(it drain.Item) string {
	if n := d.devices[it.Key]; n > 0 && it.Open() {
		return fmt.Sprintf("%d GPU", n)
	}
	return ""
}
