package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
	"ebb/probes/wire"
)

// dirsIn shows the entries of a directory as resources, as a probe does.
func dirsIn(base string, more func(*Readings)) func(time.Time) Readings {
	return func(now time.Time) Readings {
		r := empty(now)
		entries, _ := os.ReadDir(base)
		for _, e := range entries {
			path := filepath.Join(base, e.Name())
			r.Dirs.Value = append(r.Dirs.Value, fleet.Resource{
				Key: fleet.Key{Kind: "dir", ID: path}, Identity: identityOf(path), Owner: fleet.Key{Kind: "vm", ID: e.Name()},
			})
		}
		if more != nil {
			more(&r)
		}
		return r
	}
}

func identityOf(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return ""
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

func cleanOf(id string, key fleet.Key, identity string) wire.ActRequest {
	return wire.ActRequest{ID: id, Machine: testMachine, Kind: wire.ActClean, Key: key, Identity: identity}
}

// seenTwice lets the gap between two looks pass.
func (r *rig) seenTwice() {
	r.t.Helper()
	c := r.dial(wire.Observe)
	_, err := c.Facts(r.t.Context(), true)
	ok(r.t, err)
	r.clock.advance(r.cfg.withDefaults().CleanGap)
	_, err = c.Facts(r.t.Context(), true)
	ok(r.t, err)
}

func TestADirectoryIsCleanedOnAHeldHostAfterTwoLooks(t *testing.T) {
	base, outside := t.TempDir(), t.TempDir()
	ok(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600))
	dir := filepath.Join(base, "leak")
	ok(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
	ok(t, os.WriteFile(filepath.Join(dir, "a/b/file"), []byte("x"), 0o400))
	ok(t, os.Symlink(outside, filepath.Join(dir, "a/link")))
	ok(t, os.Symlink(filepath.Join(outside, "precious"), filepath.Join(dir, "link")))
	r := newRig(t)
	r.prober.set(dirsIn(base, nil))
	key := fleet.Key{Kind: "dir", ID: dir}
	_, err := r.act(cleanOf("c0", key, identityOf(dir)))
	code(t, err, wire.CodeNotHeld)
	r.seenTwice() // not held: these looks do not count
	r.cordon()
	reply, err := r.act(cleanOf("c1", key, identityOf(dir)))
	failed(t, reply, err, wire.CodeTooEarly)
	if reply.NotYet.IsZero() {
		t.Fatal("it does not say when to ask again")
	}
	r.seenTwice()
	reply, err = r.act(cleanOf("c2", key, "1:1"))
	failed(t, reply, err, wire.CodeOtherRun)
	reply, err = r.act(cleanOf("c3", key, identityOf(dir)))
	ok(t, err)
	if !reply.OK {
		t.Fatalf("%+v", reply)
	}
	if left, _ := os.ReadDir(base); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Fatal("it followed a symbolic link")
	}
	reply, err = r.act(cleanOf("c4", key, "1:1"))
	failed(t, reply, err, wire.CodeOtherRun)
}

func TestWhatIsNotCleaned(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "x")
	ok(t, os.Mkdir(dir, 0o755))
	key, identity := fleet.Key{Kind: "dir", ID: dir}, identityOf(dir)
	for name, c := range map[string]struct {
		more func(*Readings)
		want string
	}{
		"owner runs": {func(rd *Readings) {
			rd.Workloads.Value = []fleet.Workload{{Key: fleet.Key{Kind: "vm", ID: "x"}, Phase: fleet.Running}}
		}, wire.CodeOtherRun},
		"owner rests": {func(rd *Readings) {
			rd.Workloads.Value = []fleet.Workload{{Key: fleet.Key{Kind: "vm", ID: "x"}, Phase: fleet.AtRest}}
		}, wire.CodeOtherRun},
		"another owns it": {func(rd *Readings) {
			rd.Workloads.Value = []fleet.Workload{{Key: fleet.Key{Kind: "vm", ID: "y"}, Phase: fleet.Running, Owns: []fleet.Key{key}}}
		}, wire.CodeOtherRun},
		"used":   {func(rd *Readings) { rd.Dirs.Value[0].Users = []fleet.Run{{PID: 7}} }, wire.CodeOtherRun},
		"system": {func(rd *Readings) { rd.Dirs.Value[0].System = "the host's" }, wire.CodeOtherRun},
		"workloads unknown": {func(rd *Readings) {
			rd.Workloads = fleet.ReadFailed[[]fleet.Workload]("r", rd.Dirs.At, 0, errors.New("no"))
		}, wire.CodeOtherRun},
		"dirs unknown": {func(rd *Readings) { rd.Dirs.Status = fleet.Failed }, wire.CodeOtherRun},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cordon()
			r.prober.set(dirsIn(base, c.more))
			r.seenTwice()
			reply, err := r.act(cleanOf("c1", key, identity))
			failed(t, reply, err, c.want)
			if identityOf(dir) != identity {
				t.Fatal("it was touched")
			}
		})
	}
	t.Run("open ticket", func(t *testing.T) {
		r := newRig(t)
		_, err := r.dial(wire.Admission).Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1})
		ok(t, err)
		r.cordon()
		r.prober.set(dirsIn(base, nil))
		r.seenTwice()
		_, err = r.act(cleanOf("c1", key, identity))
		code(t, err, wire.CodeTicketsOpen)
	})
	t.Run("used in between", func(t *testing.T) {
		r := newRig(t)
		r.cordon()
		used := false
		r.prober.set(dirsIn(base, func(rd *Readings) {
			if used {
				rd.Dirs.Value[0].Users = []fleet.Run{{PID: 7}}
			}
		}))
		r.seenTwice()
		used = true
		_, err := r.dial(wire.Observe).Facts(t.Context(), true)
		ok(t, err)
		used = false
		reply, err := r.act(cleanOf("c1", key, identity))
		failed(t, reply, err, wire.CodeTooEarly)
	})
	t.Run("kinds and names", func(t *testing.T) {
		r := newRig(t)
		r.cordon()
		for _, k := range []fleet.Key{{Kind: "tap", ID: "t"}, {Kind: "vm", ID: "1"}} {
			_, err := r.act(cleanOf("c1", k, "x"))
			code(t, err, wire.CodeBadRequest)
		}
		for i, k := range []fleet.Key{{Kind: "netns", ID: "../etc"}, {Kind: "loop", ID: "sda"}, {Kind: "dir", ID: "relative"}, {Kind: "dir", ID: "/a/../b"}, {Kind: "dir", ID: "/"}} {
			reply, err := r.act(cleanOf("n"+itoa(i), k, "x"))
			failed(t, reply, err, wire.CodeBadRequest)
		}
	})
}

// A directory is exchanged for another between the look and the act.
func TestAReplacedDirectoryIsLeftAlone(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "x")
	ok(t, os.Mkdir(dir, 0o755))
	h, err := holdDir(dir)
	ok(t, err)
	defer h.close()
	ok(t, h.same())
	ok(t, os.Rename(dir, filepath.Join(base, "y")))
	ok(t, os.Mkdir(dir, 0o755))
	ok(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o600))
	if err := h.same(); err == nil {
		t.Fatal("not noticed")
	}
	if err := h.remove(); err == nil {
		t.Fatal("another directory was moved aside and kept there")
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err != nil {
		t.Fatal("the new directory is not in its place")
	}
}

// A rule's directory may hold files and links: they go, and what a link leads
// to stays.
func TestFilesAndLinksAreCleanedAsThemselves(t *testing.T) {
	base, outside := t.TempDir(), t.TempDir()
	ok(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600))
	ok(t, os.Symlink(outside, filepath.Join(base, "link")))
	ok(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	r := newRig(t)
	r.cordon()
	r.prober.set(dirsIn(base, nil))
	r.seenTwice()
	for _, name := range []string{"link", "file"} {
		path := filepath.Join(base, name)
		reply, err := r.act(cleanOf("clean/"+name, fleet.Key{Kind: "dir", ID: path}, identityOf(path)))
		ok(t, err)
		if !reply.OK {
			t.Fatalf("%s: %+v", name, reply)
		}
	}
	if left, _ := os.ReadDir(base); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Fatal("it followed a symbolic link")
	}
}

func TestADirectoryWithAMountInItIsRefused(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	dir := filepath.Join(base, "with space")
	inner := filepath.Join(dir, "mnt")
	ok(t, os.MkdirAll(inner, 0o755))
	if err := unix.Mount("tmpfs", inner, "tmpfs", 0, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	defer unix.Unmount(inner, unix.MNT_DETACH)
	ok(t, os.WriteFile(filepath.Join(inner, "precious"), nil, 0o600))
	r := newRig(t)
	r.cordon()
	r.prober.set(dirsIn(base, nil))
	r.seenTwice()
	reply, err := r.act(cleanOf("c1", fleet.Key{Kind: "dir", ID: dir}, identityOf(dir)))
	failed(t, reply, err, wire.CodeOtherRun)
	// And were it not seen beforehand, the removal itself stops at the mount.
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	ok(t, err)
	defer unix.Close(fd)
	if err := removeContents(fd, 0); err == nil {
		t.Fatal("it went into another file system")
	}
	if _, err := os.Stat(filepath.Join(inner, "precious")); err != nil {
		t.Fatal("it removed what was mounted")
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

// netnsIn shows the entries of a directory as namespaces.
func netnsIn(base string) func(time.Time) Readings {
	return func(now time.Time) Readings {
		r := empty(now)
		entries, _ := os.ReadDir(base)
		for _, e := range entries {
			r.Netns.Value = append(r.Netns.Value, fleet.Resource{
				Key: fleet.Key{Kind: "netns", ID: e.Name()}, Identity: identityOf(filepath.Join(base, e.Name()))})
		}
		return r
	}
}

// newNetns mounts a new network namespace on a file, as "ip netns add" does.
func newNetns(t *testing.T, path string) {
	t.Helper()
	ok(t, os.WriteFile(path, nil, 0o444))
	failure := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			failure <- err
			return
		}
		failure <- unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}()
	if err := <-failure; err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}

func TestNamespacesAndPlaceholdersAreCleaned(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	newNetns(t, filepath.Join(base, "ns-leak"))
	newNetns(t, filepath.Join(base, "ns-stays"))
	ok(t, os.WriteFile(filepath.Join(base, "placeholder"), nil, 0o444))
	r := newRig(t, func(c *Config) { c.Netns = base })
	r.cordon()
	r.prober.set(netnsIn(base))
	r.seenTwice()
	for i, name := range []string{"ns-leak", "placeholder"} {
		reply, err := r.act(cleanOf("c"+itoa(i), fleet.Key{Kind: "netns", ID: name}, identityOf(filepath.Join(base, name))))
		ok(t, err)
		if !reply.OK {
			t.Fatalf("%s: %+v", name, reply)
		}
	}
	left, err := os.ReadDir(base)
	ok(t, err)
	if len(left) != 1 || left[0].Name() != "ns-stays" {
		t.Fatalf("left: %v", left)
	}
	var fs unix.Statfs_t
	ok(t, unix.Statfs(filepath.Join(base, "ns-stays"), &fs))
	if fs.Type != unix.NSFS_MAGIC {
		t.Fatal("the other namespace was unmounted")
	}
}

func TestAReplacedNamespaceIsLeftAlone(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	path := filepath.Join(base, "ns")
	newNetns(t, path)
	h, err := holdNetns(base, "ns")
	ok(t, err)
	defer h.close()
	ok(t, unix.Unmount(path, unix.MNT_DETACH))
	newNetns2(t, path)
	if err := h.same(); err == nil {
		t.Fatal("another namespace of the same name was not noticed")
	}
}

func newNetns2(t *testing.T, path string) {
	t.Helper()
	ok(t, os.Remove(path))
	newNetns(t, path)
}

func TestLoopDevicesAreCleaned(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "image")
	ok(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	out, err := exec.Command("losetup", "-f", "--show", file).CombinedOutput()
	if err != nil {
		t.Skipf("no loop devices here: %s", out)
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", dev).Run() })
	name := filepath.Base(dev)
	show := func(now time.Time) Readings {
		r := empty(now)
		r.Loops = fleet.Read([]fleet.Resource(nil), "/sys/block", now, 0)
		if b, err := os.ReadFile("/sys/block/" + name + "/loop/backing_file"); err == nil && strings.HasPrefix(string(b), file) {
			r.Loops.Value = []fleet.Resource{{Key: fleet.Key{Kind: "loop", ID: name}, Identity: string(b)}}
		}
		return r
	}
	r := newRig(t)
	r.cordon()
	r.prober.set(show)
	r.seenTwice()
	identity := r.agent.Facts().Loops.Value[0].Identity
	key := fleet.Key{Kind: "loop", ID: name}

	// Mounted: detaching would only be promised by the kernel.
	mnt := filepath.Join(dir, "mnt")
	ok(t, os.Mkdir(mnt, 0o755))
	if out, err := exec.Command("mkfs.ext4", "-q", dev).CombinedOutput(); err != nil {
		t.Logf("no file system to mount: %s", out)
	} else if err := unix.Mount(dev, mnt, "ext4", 0, ""); err != nil {
		t.Logf("not mounted: %v", err)
	} else {
		reply, err := r.act(cleanOf("mounted", key, identity))
		failed(t, reply, err, wire.CodeOtherRun)
		ok(t, unix.Unmount(mnt, 0))
	}
	reply, err := r.act(cleanOf("c1", key, identity))
	ok(t, err)
	if !reply.OK {
		t.Fatalf("%+v", reply)
	}
	if _, err := os.Stat("/sys/block/" + name + "/loop/backing_file"); err == nil {
		t.Fatal("still attached")
	}
	reply, err = r.act(cleanOf("c2", key, identity))
	failed(t, reply, err, wire.CodeOtherRun)
}

func TestUnescapeMount(t *testing.T) {
	if got := unescapeMount(`/a\040b\134c`); got != `/a b\c` {
		t.Fatal(got)
	}
}
