//go:build cgo

// Command ebbd-nvml asks NVIDIA's management library about the GPUs of this
// host, prints one JSON document (probes.NVMLReport) and ends. The agent runs it
// as a child for each look: the library can end the process that calls it, and
// an open handle would keep the driver from being unloaded.
//
// Exit status: 0 with a report; 3 without the library; 1 where the library
// could not answer for every device. With 1 and 3 the document says why.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"ebb/probes"
)

const (
	exitFailed    = 1
	exitNoLibrary = 3
)

func main() { os.Exit(report(nvml.New(), os.Stdout)) }

// report asks and prints, and returns the exit status.
func report(lib nvml.Interface, out io.Writer) int {
	r, err := ask(lib)
	status := 0
	if err != nil {
		status, r = exitFailed, probes.NVMLReport{Error: err.Error()}
		if errors.Is(err, errNoLibrary) {
			status = exitNoLibrary
		}
	}
	if err := json.NewEncoder(out).Encode(r); err != nil {
		return exitFailed
	}
	return status
}

var errNoLibrary = errors.New("libnvidia-ml.so.1 can't be loaded")

// ask reads every device. When the library is not there, nothing else may be
// called, not even the function that turns the code into words: the symbol is
// looked up on call, and its absence ends the process.
func ask(lib nvml.Interface) (r probes.NVMLReport, err error) {
	switch code := lib.Init(); code {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return r, errNoLibrary
	default:
		return r, failed("init", code)
	}
	defer lib.Shutdown()
	r.Devices = []probes.NVMLDevice{}
	// Only for people: a driver that doesn't tell its version still has devices.
	r.Driver, _ = lib.SystemGetDriverVersion()
	count, code := lib.DeviceGetCount()
	if code != nvml.SUCCESS {
		return r, failed("count devices", code)
	}
	for i := range count {
		dev, code := lib.DeviceGetHandleByIndex(i)
		if code != nvml.SUCCESS {
			return r, failed(fmt.Sprintf("open device %d", i), code)
		}
		d, err := askDevice(dev, i, lib.Extensions().LookupSymbol(mpsSymbol) == nil)
		if err != nil {
			return r, err
		}
		r.Devices = append(r.Devices, d)
	}
	return r, nil
}

// mpsSymbol is looked up before it is called: drivers before 470 lack it, and to
// call what is not there ends the process.
const mpsSymbol = "nvmlDeviceGetMPSComputeRunningProcesses"

// askDevice reads one device. Its identity and its holders must be known;
// utilisation and ECC are not there on every device.
func askDevice(dev nvml.Device, index int, mps bool) (probes.NVMLDevice, error) {
	d := probes.NVMLDevice{Index: index, Util: -1}
	var code nvml.Return
	if d.UUID, code = dev.GetUUID(); code != nvml.SUCCESS {
		return d, failed(fmt.Sprintf("device %d: uuid", index), code)
	}
	d.Name, _ = dev.GetName()
	if use, code := dev.GetUtilizationRates(); code == nvml.SUCCESS {
		d.Util = int(use.Gpu)
	}
	if n, code := dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); code == nvml.SUCCESS {
		d.Errors = n
	}
	holders, err := askHolders(dev, mps)
	if err != nil {
		return d, fmt.Errorf("device %d: %w", index, err)
	}
	d.Holders = holders
	return d, nil
}

// askHolders lists the processes that hold a device: those that compute, that
// draw, and that share it through MPS. A device may lack the latter two.
func askHolders(dev nvml.Device, mps bool) ([]int, error) {
	var pids []int
	for _, q := range []struct {
		what     string
		ask      func() ([]nvml.ProcessInfo, nvml.Return)
		there    bool
		optional bool
	}{
		{"compute processes", dev.GetComputeRunningProcesses, true, false},
		{"graphics processes", dev.GetGraphicsRunningProcesses, true, true},
		{"MPS processes", dev.GetMPSComputeRunningProcesses, mps, true},
	} {
		if !q.there {
			continue
		}
		infos, code := q.ask()
		if q.optional && (code == nvml.ERROR_NOT_SUPPORTED || code == nvml.ERROR_FUNCTION_NOT_FOUND) {
			continue
		}
		if code != nvml.SUCCESS {
			return nil, failed(q.what, code)
		}
		for _, info := range infos {
			pids = append(pids, int(info.Pid))
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// failed makes an error of a code that the library gave after it was loaded.
func failed(what string, code nvml.Return) error {
	return fmt.Errorf("%s: NVML error %d", what, int(code))
}
