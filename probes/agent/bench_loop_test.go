package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// addLoops attaches files to loop devices that detach themselves once this
// process has closed them. They show below the crowd's own /sys/block.
func (c *crowd) addLoops(b *testing.B) {
	block := filepath.Join(c.root, "sys")
	need(b, os.MkdirAll(block, 0o755))
	need(b, os.Symlink("/sys/block", filepath.Join(block, "block")))
	if os.Getenv(inside) == "" {
		return
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		b.Logf("loop devices can't be had: %v", err)
		return
	}
	defer control.Close()
	var held []*os.File
	b.Cleanup(func() {
		for _, f := range held {
			f.Close()
		}
	})
	for i := range benchLoops {
		backing, err := os.Create(filepath.Join(c.root, fmt.Sprintf("var/lib/vms/%s/disk.img", c.id(i))))
		need(b, err)
		need(b, backing.Truncate(1<<20))
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			b.Logf("no more loop devices: %v", err)
			return
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			b.Logf("no more loop devices: %v", err)
			return
		}
		held = append(held, dev)
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}})
		backing.Close()
		if err != nil {
			b.Logf("no more loop devices: %v", err)
			return
		}
		c.loops++
	}
}
