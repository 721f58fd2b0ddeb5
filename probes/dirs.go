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

// AsidePrefix begins the names under which cleaning moves directories aside
// before it removes them. One that stays was not removed, and still is there:
// it is told, as nobody's.
const AsidePrefix = ".ebb-"

// lostFound is what a file system has at its root.
const lostFound = "lost+found"

func dirSource(rules []fleet.DirRule) string {
	if len(rules) == 0 {
		return "no directories are configured"
	}
	var paths []string
	for _, r := range rules {
		paths = append(paths, r.Path)
	}
	return strings.Join(paths, ", ")
}

// readDirs lists what the rules say belongs to workloads. A directory that is
// missing is empty only where its parent can be listed and does not have it.
func readDirs(root Root, rules []fleet.DirRule) ([]fleet.Resource, error) {
	list := []fleet.Resource{}
	for _, rule := range rules {
		entries, err := os.ReadDir(root.Path(rule.Path))
		if errors.Is(err, fs.ErrNotExist) {
			err = provedAbsent(root.Path(rule.Path), false)
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			res, ok, err := readDir(root, rule, e)
			if err != nil {
				return nil, err
			}
			if ok {
				list = append(list, res)
			}
		}
	}
	// Two rules may name one directory; the first that names an entry has it.
	slices.SortStableFunc(list, func(a, b fleet.Resource) int { return a.Key.Compare(b.Key) })
	return slices.CompactFunc(list, func(a, b fleet.Resource) bool { return a.Key == b.Key }), nil
}

// readDir looks at one entry. Files and links count too: whatever lies there is
// somebody's.
func readDir(root Root, rule fleet.DirRule, e fs.DirEntry) (fleet.Resource, bool, error) {
	id, ok := strings.CutPrefix(e.Name(), rule.Prefix)
	aside := strings.HasPrefix(e.Name(), AsidePrefix)
	if !aside && (!ok || id == "" || e.Name() == lostFound) {
		return fleet.Resource{}, false, nil
	}
	path := filepath.Join(rule.Path, e.Name())
	st, err := statx(root.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return fleet.Resource{}, false, nil
	}
	if err != nil {
		return fleet.Resource{}, false, err
	}
	res := fleet.Resource{
		Key:      fleet.Key{Kind: "dir", ID: textOf(path)},
		Identity: dirIdentity(st),
		Owner:    fleet.Key{Kind: rule.Kind, ID: textOf(id)},
		Since:    born(st),
	}
	if aside {
		res.Owner, res.Detail = fleet.Key{}, "moved aside by cleaning, and not removed"
	}
	if !e.IsDir() {
		res.Detail = "not a directory: " + e.Type().String()
	}
	return res, true, nil
}

func statx(path string) (unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	if err != nil {
		return st, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return st, nil
}

// DirIdentity is the Resource.Identity of a directory: device and inode. It
// does not change when the directory is renamed or its content is.
func DirIdentity(path string) (string, error) {
	st, err := statx(path)
	if err != nil {
		return "", err
	}
	return dirIdentity(st), nil
}

func dirIdentity(st unix.Statx_t) string {
	return fmt.Sprintf("%d:%d", unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino)
}

// born is when an entry was made, or, where the file system does not keep that,
// when it was last changed.
func born(st unix.Statx_t) time.Time {
	if st.Mask&unix.STATX_BTIME != 0 {
		return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	return time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))
}
