//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"ebb/probes"
)

// dgx is a machine with eight idle GPUs.
func dgx() *server.Server {
	s := dgxh100.New()
	for i := range s.Devices {
		d := s.Devices[i].(*server.Device)
		none := func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
		d.GetComputeRunningProcessesFunc = none
		d.GetGraphicsRunningProcessesFunc = none
		d.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.SUCCESS }
		d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, nvml.SUCCESS }
	}
	return s
}

func device(s *server.Server, i int) *server.Device { return s.Devices[i].(*server.Device) }

func run(t *testing.T, lib nvml.Interface) (probes.NVMLReport, int) {
	t.Helper()
	var out bytes.Buffer
	status := report(lib, &out)
	var r probes.NVMLReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%s: %v", out.Bytes(), err)
	}
	return r, status
}

func TestReport(t *testing.T) {
	s := dgx()
	busy := device(s, 3)
	busy.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 900}, {Pid: 7}}, nvml.SUCCESS
	}
	busy.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 7}, {Pid: 8}}, nvml.SUCCESS
	}
	busy.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97}, nvml.SUCCESS }
	busy.GetTotalEccErrorsFunc = func(kind nvml.MemoryErrorType, span nvml.EccCounterType) (uint64, nvml.Return) {
		if kind != nvml.MEMORY_ERROR_TYPE_UNCORRECTED || span != nvml.VOLATILE_ECC {
			t.Errorf("asked for errors of kind %v over %v", kind, span)
		}
		return 2, nvml.SUCCESS
	}
	device(s, 4).GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
	closed := 0
	s.ShutdownFunc = func() nvml.Return { closed++; return nvml.SUCCESS }

	r, status := run(t, s)
	if status != 0 || len(r.Devices) != 8 || r.Driver != "550.54.15" || closed != 1 {
		t.Fatalf("status %d, closed %d, %+v", status, closed, r)
	}
	d := r.Devices[3]
	if d.UUID != busy.UUID || d.Index != 3 || d.Util != 97 || d.Errors != 2 || !slices.Equal(d.Holders, []int{7, 8, 900}) || !strings.Contains(d.Name, "H100") {
		t.Errorf("got %+v", d)
	}
	if r.Devices[4].Util != -1 {
		t.Errorf("what a device does not tell is %d", r.Devices[4].Util)
	}
}

// Without the library any other call ends the process, so the mock has no other.
func TestNoLibrary(t *testing.T) {
	lib := &mock.Interface{InitFunc: func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }}
	r, status := run(t, lib)
	if status != exitNoLibrary || r.Error == "" || r.Devices != nil {
		t.Errorf("status %d, %+v", status, r)
	}
	if n := len(lib.ShutdownCalls()) + len(lib.ErrorStringCalls()) + len(lib.DeviceGetCountCalls()) + len(lib.ExtensionsCalls()); n != 0 {
		t.Errorf("%d calls after a library that is not there", n)
	}
}

// An answer about some devices is none: what holds the others is not known.
func TestFailures(t *testing.T) {
	for says, harm := range map[string]func(*server.Server){
		"init: NVML error 9": func(s *server.Server) { s.InitFunc = func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED } },
		"count devices": func(s *server.Server) {
			s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
		},
		"open device 0": func(s *server.Server) {
			s.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_GPU_IS_LOST }
		},
		"device 7: uuid": func(s *server.Server) {
			device(s, 7).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
		},
		"device 2: compute processes": func(s *server.Server) {
			device(s, 2).GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
		},
		"device 2: graphics processes": func(s *server.Server) {
			device(s, 2).GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
		},
	} {
		s := dgx()
		harm(s)
		if r, status := run(t, s); status != exitFailed || !strings.Contains(r.Error, says) || r.Devices != nil {
			t.Errorf("%s: status %d, %+v", says, status, r)
		}
	}
}

// Old drivers have no function for MPS; to call it would end the process.
func TestOldDriver(t *testing.T) {
	s := dgx()
	s.LookupSymbolFunc = func(string) error { return nvml.ERROR_FUNCTION_NOT_FOUND }
	for i := range s.Devices {
		device(s, i).GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			t.Error("called what is not there")
			return nil, nvml.SUCCESS
		}
	}
	if _, status := run(t, s); status != 0 {
		t.Errorf("status %d", status)
	}
}
