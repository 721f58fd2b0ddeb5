package probes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
)

const netnsDir = "/run/netns"

// nsfsMagic is the type of the file system that namespaces live in.
const nsfsMagic = 0x6e736673

// nsEntry is a name in /run/netns: a file on which a namespace is mounted.
type nsEntry struct {
	name    string
	inode   uint64 // of the namespace; zero for a placeholder
	dev     uint64
	fileIno uint64
	since   time.Time
}

// readNetns lists the names of network namespaces. Where /var/run is not a link
// to /run, as on old systems, names can be in either.
func readNetns(root Root) ([]nsEntry, error) {
	main := root.Path(netnsDir)
	list, err := listNetns(main)
	if err != nil {
		return nil, err
	}
	other := root.Path("/var/run/netns")
	if sameDir(main, other) || outside(root, other) {
		return list, nil
	}
	more, err := listNetns(other)
	if err != nil {
		return nil, err
	}
	for _, n := range more {
		if !slices.ContainsFunc(list, func(o nsEntry) bool { return o.name == n.name && o.inode == n.inode }) {
			list = append(list, n)
		}
	}
	return list, nil
}

func sameDir(a, b string) bool {
	ia, errA := os.Stat(a)
	ib, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return errors.Is(errB, fs.ErrNotExist)
	}
	return os.SameFile(ia, ib)
}

// outside reports whether a path leads out of the root by a link, to what
// belongs to another host.
func outside(root Root, path string) bool {
	if root.Dir == "" {
		return false
	}
	dir, err := filepath.EvalSymlinks(root.Dir)
	if err != nil {
		return true
	}
	real, err := filepath.EvalSymlinks(path)
	return err == nil && !strings.HasPrefix(real, dir+"/")
}

func listNetns(dir string) ([]nsEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, provedAbsent(dir, true)
	}
	if err != nil {
		return nil, err
	}
	var list []nsEntry
	for _, e := range entries {
		n, err := statNetns(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// statNetns looks at one name. Without a namespace mounted on it, it is a
// placeholder that "ip netns" left behind, or that was made by hand.
func statNetns(path string) (nsEntry, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nsEntry{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	var sfs unix.Statfs_t
	if err := unix.Statfs(path, &sfs); err != nil {
		return nsEntry{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	n := nsEntry{name: textOf(filepath.Base(path)), dev: uint64(st.Dev), fileIno: st.Ino, since: time.Unix(st.Mtim.Unix())}
	if sfs.Type == nsfsMagic {
		n.inode = st.Ino
	}
	return n, nil
}

func (n nsEntry) identity() string {
	if n.inode == 0 {
		return fmt.Sprintf("file:%d:%d", n.dev, n.fileIno)
	}
	return netnsID(n.inode)
}

func netnsID(inode uint64) string { return fmt.Sprintf("net:[%d]", inode) }

// joinNetns makes resources of the names, and of the namespaces without a name
// that processes are in.
func (w *world) joinNetns(r fleet.Reading[[]nsEntry], t table, root Root) fleet.Reading[[]fleet.Resource] {
	if r.Status != fleet.OK {
		return carry[[]fleet.Resource](r, "")
	}
	if t.denied > 0 && root.Scope == "" {
		return fleet.ReadFailed[[]fleet.Resource](r.Source, r.At, r.Took, t.deniedError())
	}
	list := make([]fleet.Resource, 0, len(r.Value))
	named := make(map[uint64]bool)
	for _, n := range r.Value {
		named[n.inode] = true
		list = append(list, w.namedNetns(n))
	}
	if root.Scope == "" {
		list = append(list, w.unnamedNetns(named)...)
	}
	slices.SortStableFunc(list, func(a, b fleet.Resource) int { return a.Key.Compare(b.Key) })
	return fleet.Read(list, r.Source, r.At, r.Took)
}

func (w *world) namedNetns(n nsEntry) fleet.Resource {
	res := fleet.Resource{Key: fleet.Key{Kind: "netns", ID: n.name}, Identity: n.identity(), Since: n.since}
	res.Owner = w.ownerKey(res.Key)
	if n.inode == 0 {
		res.Detail = "placeholder: no namespace is mounted on it"
	} else if w.table.host[n.inode] {
		res.System, res.Owner = "host namespace", fleet.Key{}
		return res
	} else {
		res.Users, _ = w.table.runsWithin(n.inode)
	}
	if glob, ok := matchGlob(w.system.Netns, n.name); ok {
		res.System, res.Owner = "rule "+glob, fleet.Key{}
	}
	return res
}

// unnamedNetns finds the namespaces that only processes hold. They belong to
// what is in them; the host's own services have some too.
func (w *world) unnamedNetns(named map[uint64]bool) []fleet.Resource {
	var list []fleet.Resource
	seen := make(map[uint64]bool)
	for _, p := range w.table.procs {
		if p.netns == 0 || named[p.netns] || seen[p.netns] || w.table.host[p.netns] {
			continue
		}
		seen[p.netns] = true
		id := netnsID(p.netns)
		res := fleet.Resource{Key: fleet.Key{Kind: "netns", ID: id}, Identity: id, Detail: "without a name", Since: p.Started}
		var procs []*proc
		res.Users, procs = w.table.runsWithin(p.netns)
		res.Owner, res.System = procs[0].Owner, procs[0].System
		for _, other := range procs {
			if other.Owner != res.Owner {
				res.Owner = fleet.Key{}
			}
			if other.System == "" {
				res.System = ""
			}
		}
		list = append(list, res)
	}
	return list
}
