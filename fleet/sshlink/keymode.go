package sshlink

import (
	"io/fs"
	"os"
	"syscall"
)

// tooOpen reports a private key of ours that others may read, which ssh refuses
// to use.
func tooOpen(file string) (bool, fs.FileMode) {
	info, err := os.Stat(file)
	if err != nil {
		return false, 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == localUID() && info.Mode().Perm()&0o077 != 0, info.Mode().Perm()
}
