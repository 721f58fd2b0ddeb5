package probes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ebb/fleet"
)

// join puts together what the probes read. Whatever rests on a reading that
// failed fails with it and says so: a namespace whose users are not known is
// not an unused one.
func (p *Prober) join(r raw) Scan {
	s := Scan{Dirs: r.dirs}
	w := &world{
		manifests: r.manifests.Value, netns: r.netns.Value, rules: p.rules, system: p.system,
		keep: p.cfg.Keep, units: slices.Contains(p.cfg.Presets, PresetSystemd),
	}
	t, known := r.table.Get()
	if !known {
		s.Processes = carry[[]fleet.Process](r.table, "")
		s.Workloads = carry[[]fleet.Workload](r.table, "workloads: ")
		s.Netns = carry[[]fleet.Resource](r.table, "users of network namespaces: ")
		if s.GPUs = carry[[]fleet.GPU](r.gpus, ""); r.gpus.Status == fleet.OK {
			s.GPUs = carry[[]fleet.GPU](r.table, "holders of GPUs: ")
		}
		w.table = &table{byPID: map[int]*proc{}}
		w.index()
		s.Loops = w.joinLoops(r.loops, p.system)
		return s
	}
	w.table = &t
	err := errors.Join(checkPresets(p.cfg.Presets), w.attribute())
	s.Workloads = w.readWorkloads(p.workloadSource(), r, err)
	s.Netns = w.joinNetns(r.netns, t, p.cfg.Root)
	s.Loops = w.joinLoops(r.loops, p.system)
	s.GPUs = w.joinGPUs(r.gpus)
	if gpus, ok := s.GPUs.Get(); ok {
		noteGPUs(w.table, gpus, &s.Workloads)
	}
	list := make([]fleet.Process, len(t.procs))
	for i, pr := range t.procs {
		list[i] = pr.Process
	}
	s.Processes = fleet.Read(list, r.table.Source, r.table.At, r.table.Took)
	return s
}

// carry gives a reading of another type the status of the one it rests on.
func carry[T, F any](r fleet.Reading[F], what string) fleet.Reading[T] {
	return fleet.Reading[T]{Status: r.Status, Source: r.Source, At: r.At, Took: r.Took, Error: what + r.Error}
}

// workloadSource says what workloads are known by.
func (p *Prober) workloadSource() string {
	words := []string{p.cfg.proc()}
	if len(p.rules) > 0 {
		words = append(words, "rules")
	}
	if slices.Contains(p.cfg.Presets, PresetSystemd) {
		words = append(words, "units")
	}
	if slices.Contains(p.cfg.Presets, PresetManifest) {
		words = append(words, p.cfg.ManifestDirs...)
	}
	return strings.Join(words, ", ")
}

// readWorkloads makes the reading of workloads. It needs the processes, the
// manifests where they are configured, and rules that can be followed.
func (w *world) readWorkloads(source string, r raw, err error) fleet.Reading[[]fleet.Workload] {
	took, at := max(r.table.Took, r.manifests.Took), r.table.At
	if r.manifests.At.Before(at) {
		at = r.manifests.At // the older of the two: a look does not read manifests again
	}
	if r.manifests.Status == fleet.Failed {
		err = errors.Join(err, errors.New(r.manifests.Error))
	}
	if err != nil {
		return fleet.ReadFailed[[]fleet.Workload](source, at, took, err)
	}
	list := make([]fleet.Workload, 0, len(w.workloads))
	for _, k := range w.sorted() {
		list = append(list, k.value(w.manifests))
	}
	return fleet.Read(list, source, at, took)
}

// value completes a workload with what its processes tell.
func (k *work) value(manifests []manifest) fleet.Workload {
	v := k.Workload
	if k.main == nil {
		return v
	}
	v.Run, v.Started = k.main.Run, k.main.Started
	for _, m := range manifests {
		if m.key() == v.Key {
			v.Expires = m.expires(v.Started)
		}
	}
	v.Runs = append(v.Runs, v.Run)
	for _, p := range k.runs {
		if p != k.main {
			v.Runs = append(v.Runs, p.Run)
		}
	}
	return v
}

// joinGPUs turns pids into runs. A holder that is not among the processes still
// holds the device; it is told without a start time, so that nothing can be
// done to it by mistake.
func (w *world) joinGPUs(r fleet.Reading[NVMLReport]) fleet.Reading[[]fleet.GPU] {
	if r.Status != fleet.OK {
		return carry[[]fleet.GPU](r, "")
	}
	list := make([]fleet.GPU, 0, len(r.Value.Devices))
	for _, d := range r.Value.Devices {
		g := fleet.GPU{UUID: d.UUID, Index: d.Index, Name: d.Name, Util: max(d.Util, 0), Errors: d.Errors}
		for _, pid := range d.Holders {
			run := fleet.Run{Boot: w.table.boot, PID: pid}
			if p := w.table.byPID[pid]; p != nil {
				run = p.Run
			}
			g.Holders = append(g.Holders, run)
		}
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b fleet.GPU) int { return cmp.Compare(a.Index, b.Index) })
	source := r.Source
	if r.Value.Source != "" {
		source = r.Value.Source
	}
	return fleet.Read(list, source, r.At, r.Took)
}

// noteGPUs tells workloads which devices their processes hold.
func noteGPUs(t *table, gpus []fleet.GPU, r *fleet.Reading[[]fleet.Workload]) {
	held := make(map[fleet.Key][]string)
	for _, g := range gpus {
		for _, run := range g.Holders {
			if p := t.byPID[run.PID]; p != nil && p.Run == run && !p.Owner.IsZero() {
				held[p.Owner] = append(held[p.Owner], g.UUID)
			}
		}
	}
	for i := range r.Value {
		v := &r.Value[i]
		v.GPUs = append(slices.Clip(v.GPUs), held[v.Key]...)
		slices.Sort(v.GPUs)
		v.GPUs = slices.Compact(v.GPUs)
	}
}

// runsWithin lists the processes in a network namespace.
func (t *table) runsWithin(inode uint64) (runs []fleet.Run, procs []*proc) {
	for _, p := range t.procs {
		if p.netns == inode {
			runs, procs = append(runs, p.Run), append(procs, p)
		}
	}
	return runs, procs
}

// deniedError says that namespaces could not be read.
func (t *table) deniedError() error {
	return fmt.Errorf("network namespaces of %d processes may not be read", t.denied)
}
