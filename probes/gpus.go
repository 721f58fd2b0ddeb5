package probes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// NVMLReport is what ebbd-nvml prints: one JSON document.
//
//	{"driver":"550.54.15","devices":[{"uuid":"GPU-…","index":0,"name":"NVIDIA H100",
//	 "util":97,"holders":[4117],"errors":0}]}
//
// With Error set the rest means nothing.
type NVMLReport struct {
	Driver  string       `json:"driver,omitempty"`
	Devices []NVMLDevice `json:"devices"`
	Error   string       `json:"error,omitempty"`
	Source  string       `json:"-"` // which program said so
}

// NVMLDevice is one device. Util is -1 where the device does not tell, as with
// MIG.
type NVMLDevice struct {
	UUID    string `json:"uuid"`
	Index   int    `json:"index"`
	Name    string `json:"name"`
	Util    int    `json:"util"`
	Holders []int  `json:"holders,omitempty"`
	Errors  uint64 `json:"errors"` // uncorrected ECC errors since the driver was loaded
}

func (p *Prober) gpuSource() string {
	if p.cfg.NVML != "" {
		return filepath.Base(p.cfg.NVML)
	}
	return p.helpers()[0]
}

// readGPUs asks a child: NVML can end the process that calls it, and an open
// handle keeps the driver from being unloaded.
func (p *Prober) readGPUs(ctx context.Context) (NVMLReport, error) {
	if err := noGPUs(p.cfg.Root); err != nil {
		return NVMLReport{}, err
	}
	var helperErr error
	if p.cfg.NVML != "" {
		// Half of the time at most, so that nvidia-smi gets its turn.
		half, cancel := context.WithTimeout(ctx, p.cfg.Timeout/2)
		out, err := output(half, p.cfg.NVML)
		cancel()
		if err == nil {
			var r NVMLReport
			if r, err = parseNVML(out); err == nil {
				r.Source = filepath.Base(p.cfg.NVML)
				return r, nil
			}
		}
		helperErr = fmt.Errorf("%s: %w", filepath.Base(p.cfg.NVML), err)
	}
	smi := p.cfg.SMI
	if smi == "" {
		smi = "nvidia-smi"
	}
	out, err := output(ctx, smi, "-q", "-x")
	if err == nil {
		var r NVMLReport
		if r, err = parseSMI(out); err == nil {
			r.Source = filepath.Base(smi) + " -q -x"
			return r, nil
		}
	}
	return NVMLReport{}, errors.Join(helperErr, fmt.Errorf("%s: %w", filepath.Base(smi), err))
}

// noGPUs proves that there is no NVIDIA driver: neither its directory in /proc
// nor a device node.
func noGPUs(root Root) error {
	driver := root.Path("/proc/driver/nvidia")
	_, err := os.Stat(driver)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(root.Path("/dev"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "nvidia") {
			return nil
		}
	}
	return notApplicable{"no " + driver + " and no " + root.Path("/dev/nvidia*")}
}

// output runs a helper and returns what it printed. The last of what it said in
// error goes into the error.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second // children that keep the pipes open
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("ended: %w", ctx.Err())
	}
	if err != nil {
		var said NVMLReport
		if json.Unmarshal(stdout.Bytes(), &said) == nil && said.Error != "" {
			return nil, fmt.Errorf("%w: %s", err, said.Error)
		}
		if tail := bytes.TrimSpace(stderr.Bytes()); len(tail) > 0 {
			return nil, fmt.Errorf("%w: %s", err, text(tail[max(0, len(tail)-300):]))
		}
		return nil, err
	}
	return stdout.Bytes(), nil
}

// parseNVML reads the helper's document.
func parseNVML(b []byte) (NVMLReport, error) {
	var r struct {
		NVMLReport
		Devices *[]NVMLDevice `json:"devices"` // nil when the document has none at all
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return NVMLReport{}, err
	}
	if r.Error != "" {
		return NVMLReport{}, errors.New(r.Error)
	}
	if r.Devices == nil {
		return NVMLReport{}, errors.New("a report without devices")
	}
	r.NVMLReport.Devices = *r.Devices
	return r.NVMLReport, checkDevices(r.NVMLReport.Devices)
}

func checkDevices(devices []NVMLDevice) error {
	seen := make(map[string]bool)
	for _, d := range devices {
		if d.UUID == "" || seen[d.UUID] {
			return fmt.Errorf("device %d: uuid %q", d.Index, d.UUID)
		}
		seen[d.UUID] = true
		for _, pid := range d.Holders {
			if pid < 1 {
				return fmt.Errorf("device %d: held by pid %d", d.Index, pid)
			}
		}
	}
	return nil
}
