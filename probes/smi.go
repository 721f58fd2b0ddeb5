package probes

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// smiLog is the part of "nvidia-smi -q -x" that is used:
//
//	<nvidia_smi_log>
//	  <driver_version>550.54.15</driver_version>
//	  <attached_gpus>1</attached_gpus>
//	  <gpu id="00000000:19:00.0">
//	    <product_name>NVIDIA H100 80GB HBM3</product_name>
//	    <uuid>GPU-4ff7…</uuid>
//	    <ecc_errors><volatile><sram_uncorrectable>0</sram_uncorrectable>…</volatile></ecc_errors>
//	    <utilization><gpu_util>97 %</gpu_util></utilization>
//	    <processes><process_info><pid>4117</pid><type>C</type></process_info></processes>
//	  </gpu>
//	</nvidia_smi_log>
type smiLog struct {
	Driver   string   `xml:"driver_version"`
	Attached string   `xml:"attached_gpus"`
	GPUs     []smiGPU `xml:"gpu"`
}

type smiGPU struct {
	Name string `xml:"product_name"`
	UUID string `xml:"uuid"`
	Util string `xml:"utilization>gpu_util"`
	ECC  struct {
		Counters []smiCounter `xml:",any"`
	} `xml:"ecc_errors>volatile"`
	Processes []struct {
		Text  string `xml:",chardata"`
		Infos []struct {
			PID string `xml:"pid"`
		} `xml:"process_info"`
	} `xml:"processes"`
}

type smiCounter struct {
	XMLName xml.Name
	Text    string `xml:",chardata"`
	Total   string `xml:"total"`
}

// parseSMI reads nvidia-smi's document. Devices come in the order of their
// index, which the document does not state.
func parseSMI(b []byte) (NVMLReport, error) {
	var log smiLog
	dec := xml.NewDecoder(bytes.NewReader(b))
	dec.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	if err := dec.Decode(&log); err != nil {
		return NVMLReport{}, err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(log.Attached)); err != nil || n != len(log.GPUs) {
		return NVMLReport{}, fmt.Errorf("%d devices are described, %q attached", len(log.GPUs), log.Attached)
	}
	r := NVMLReport{Driver: strings.TrimSpace(log.Driver), Devices: []NVMLDevice{}}
	for i, g := range log.GPUs {
		d, err := g.device(i)
		if err != nil {
			return NVMLReport{}, fmt.Errorf("device %d: %w", i, err)
		}
		r.Devices = append(r.Devices, d)
	}
	return r, checkDevices(r.Devices)
}

func (g smiGPU) device(index int) (NVMLDevice, error) {
	d := NVMLDevice{UUID: strings.TrimSpace(g.UUID), Index: index, Name: strings.TrimSpace(g.Name), Util: -1}
	if util, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(g.Util), " %")); err == nil && util >= 0 {
		d.Util = util
	}
	for _, c := range g.ECC.Counters {
		d.Errors += c.uncorrected()
	}
	// "N/A" instead of a list is not an empty list.
	if len(g.Processes) != 1 {
		return d, errors.New("says nothing about its processes")
	}
	if said := strings.TrimSpace(g.Processes[0].Text); said != "" && len(g.Processes[0].Infos) == 0 {
		return d, fmt.Errorf("processes: %q", said)
	}
	for _, info := range g.Processes[0].Infos {
		pid, err := strconv.Atoi(strings.TrimSpace(info.PID))
		if err != nil {
			return d, fmt.Errorf("pid %q", info.PID)
		}
		d.Holders = append(d.Holders, pid)
	}
	return d, nil
}

// uncorrected counts what can't be corrected. Older drivers say double_bit with
// a total, newer ones name each memory.
func (c smiCounter) uncorrected() uint64 {
	s := c.Text
	switch {
	case c.XMLName.Local == "double_bit":
		s = c.Total
	case !strings.Contains(c.XMLName.Local, "uncorrectable"):
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	return n
}
