package probes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ebb/fleet"
)

const blockDir = "/sys/block"

// loop is one loop device that has a file.
type loop struct {
	name     string
	identity string
	file     string // as the kernel says it, without " (deleted)"
	deleted  bool
	mounts   []string
	holders  []string // device-mapper and RAID devices on top of it
	unsure   string   // why the mounts are not known
}

// readLoops lists loop devices from sysfs; nothing is opened, since the last
// close of a device may detach it.
func (p *Prober) readLoops() ([]loop, error) {
	dir := p.cfg.Path(blockDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, p.noBlock(dir)
	}
	if err != nil {
		return nil, err
	}
	mounts, mountErr := readMounts(p.cfg.Root)
	var list []loop
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "loop") {
			continue
		}
		l, ok, err := readLoop(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if !ok || !p.ours(l) {
			continue
		}
		if mountErr != nil {
			l.unsure = "mounts are not known: " + mountErr.Error()
		}
		l.mounts = mountsOf(mounts, devNumbers(filepath.Join(dir, e.Name())))
		list = append(list, l)
	}
	return list, nil
}

// noBlock proves that there are no block devices at all. A host whose sysfs is
// merely not mounted still has the driver in /proc/devices.
func (p *Prober) noBlock(dir string) error {
	if err := provedAbsent(dir, true); err != nil {
		return err
	}
	b, err := os.ReadFile(p.cfg.Path("/proc/devices"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if bytes.Contains(b, []byte(" loop\n")) {
		return fmt.Errorf("%s is missing, but the kernel has loop devices", dir)
	}
	return notApplicable{"no " + dir}
}

// ours tells this host's devices among the machine's.
func (p *Prober) ours(l loop) bool {
	prefixes := p.cfg.LoopPrefix
	if p.cfg.Dir != "" {
		dir := p.cfg.Dir
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real // the kernel says paths without links
		}
		prefixes = append(slices.Clip(prefixes), dir)
	}
	return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(prefix string) bool {
		return strings.HasPrefix(l.file, strings.TrimSuffix(prefix, "/")+"/")
	})
}

// readLoop reads one device, or says that no file is attached to it:
//
//	loop/backing_file   /var/lib/vms/vm0/disk.img (deleted)
//	loop/offset         0
//	diskseq             17
//	dev                 7:0
func readLoop(dir string) (loop, bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, "loop", "backing_file"))
	if vanished(err) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
		return loop{}, false, nil
	}
	if err != nil {
		return loop{}, false, err
	}
	l := loop{name: filepath.Base(dir)}
	name := bytes.TrimSuffix(b, []byte("\n"))
	file, deleted := bytes.CutSuffix(name, []byte(" (deleted)"))
	if deleted {
		// A file may really be called that.
		_, err := os.Lstat(string(name))
		deleted = err != nil
	}
	if !deleted {
		file = name
	}
	l.file, l.deleted = text(file), deleted
	if l.file == "" {
		return loop{}, false, nil
	}
	if l.identity, err = loopIdentity(dir, string(file), deleted); err != nil {
		return loop{}, false, err
	}
	if held, err := os.ReadDir(filepath.Join(dir, "holders")); err == nil {
		for _, h := range held {
			l.holders = append(l.holders, h.Name())
		}
	}
	return l, true, nil
}

// loopIdentity is the device number with the kernel's sequence number, which
// grows each time a file is attached. Kernels before 5.15 have none; the file's
// inode and the offset stand in for it.
func loopIdentity(dir, file string, deleted bool) (string, error) {
	dev, err := word(filepath.Join(dir, "dev"))
	if err != nil {
		return "", err
	}
	seq, err := word(filepath.Join(dir, "diskseq"))
	if err == nil {
		return fmt.Sprintf("%s seq %s", dev, seq), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	offset, err := word(filepath.Join(dir, "loop", "offset"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	inode := "deleted"
	if !deleted {
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err == nil {
			inode = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
		}
	}
	return fmt.Sprintf("%s file %s offset %s", dev, inode, offset), nil
}

func word(path string) (string, error) {
	b, err := os.ReadFile(path)
	return text(bytes.TrimSpace(b)), err
}

// devNumbers lists the device's number and those of its partitions.
func devNumbers(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, filepath.Base(dir)+"p*", "dev"))
	var devs []string
	for _, f := range append(files, filepath.Join(dir, "dev")) {
		if dev, err := word(f); err == nil {
			devs = append(devs, dev)
		}
	}
	return devs
}

// readMounts reads what is mounted on the host: where process 1 is, or, where
// it may not be looked at, where the agent is.
func readMounts(root Root) ([]mount, error) {
	b, err := os.ReadFile(root.proc("1", "mountinfo"))
	if err != nil {
		b, err = os.ReadFile(root.proc("self", "mountinfo"))
	}
	if err != nil {
		return nil, err
	}
	return parseMountinfo(b)
}

// joinLoops makes resources of loop devices. One belongs to the workload that
// owns its file, or a directory around it.
func (w *world) joinLoops(r fleet.Reading[[]loop], system systemRules) fleet.Reading[[]fleet.Resource] {
	if r.Status != fleet.OK {
		return carry[[]fleet.Resource](r, "")
	}
	list := make([]fleet.Resource, 0, len(r.Value))
	for _, l := range r.Value {
		res := fleet.Resource{
			Key: fleet.Key{Kind: "loop", ID: l.name}, Identity: l.identity, Deleted: l.deleted,
			Owner: w.loopOwner(l.file), Detail: l.detail(),
		}
		if glob, ok := matchGlob(system.Loops, l.file); ok {
			res.System, res.Owner = "rule "+glob, fleet.Key{}
		}
		list = append(list, res)
	}
	return fleet.Read(list, r.Source, r.At, r.Took)
}

func (l loop) detail() string {
	words := []string{l.file}
	if l.deleted {
		words[0] += " (deleted)"
	}
	for _, m := range l.mounts {
		words = append(words, "mounted on "+m)
	}
	for _, h := range l.holders {
		words = append(words, "held by "+h)
	}
	if l.unsure != "" {
		words = append(words, l.unsure)
	}
	return strings.Join(words, ", ")
}

func (w *world) loopOwner(file string) fleet.Key {
	if key := w.ownerKey(fleet.Key{Kind: "loop", ID: file}); !key.IsZero() {
		return key
	}
	for dir := filepath.Dir(file); len(dir) > 1; dir = filepath.Dir(dir) {
		if key := w.ownerKey(fleet.Key{Kind: "dir", ID: dir}); !key.IsZero() {
			return key
		}
	}
	return fleet.Key{}
}
