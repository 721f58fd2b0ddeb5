package probes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const statLine = "17622 (cat) R 17613 17613 11511 0 -1 4194304 97 0 0 0 0 0 0 0 20 0 1 0 89194 3133440 359 18446744073709551615 94338773401600 94338773421481 140732157379280 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 94338773437488 94338773439104 94339833438208 140732157381305 140732157381325 140732157381325 140732157382635 0\n"

func TestParseStat(t *testing.T) {
	s, err := parseStat([]byte(statLine))
	if err != nil {
		t.Fatal(err)
	}
	want := stat{pid: 17622, ppid: 17613, session: 11511, comm: "cat", state: 'R', flags: 4194304, start: 89194,
		image: image{comm: "cat", stack: 140732157379280, arg: 140732157381305}}
	if s != want {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
}

func TestParseStatNames(t *testing.T) {
	for _, name := range []string{"a b", "(sd-pam)", "x) S 1 2 (y", ") Z 1", "two\nlines", "", "\xff\xfe", "tab\there"} {
		s, err := parseStat([]byte(strings.Replace(statLine, "cat", name, 1)))
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if s.ppid != 17613 || s.start != 89194 || s.comm != text([]byte(name)) {
			t.Errorf("%q: parent %d, start %d, comm %q", name, s.ppid, s.start, s.comm)
		}
	}
}

func TestParseStatRefuses(t *testing.T) {
	for _, line := range []string{"", "1", "1 (x", "1 (x)", "1 (x) S 1 1", "x (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 5",
		"0 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 5", strings.Replace(statLine, "89194", "soon", 1), strings.Replace(statLine, "R 17613", "RR 17613", 1)} {
		if s, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%q gave %+v", line, s)
		}
	}
}

func TestTextKeepsNamesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "a"), rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "b")
		ta, tb := text(a), text(b)
		if !utf8.ValidString(ta) {
			t.Fatalf("%q is not valid", ta)
		}
		// Two invalid names, or two valid ones, never come out the same.
		if utf8.Valid(a) == utf8.Valid(b) && string(a) != string(b) && ta == tb {
			t.Fatalf("%q and %q both became %q", a, b, ta)
		}
		out, err := json.Marshal(ta)
		var back string
		if err != nil || json.Unmarshal(out, &back) != nil || back != ta {
			t.Fatalf("%q became %q in JSON", ta, back)
		}
	})
}

func TestParseCgroup(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"0::/system.slice/ssh.service\n", "/system.slice/ssh.service"},
		{"12:pids:/system.slice/ssh.service\n1:name=systemd:/system.slice/ssh.service\n0::/system.slice/ssh.service\n", "/system.slice/ssh.service"},
		{"9:name=systemd:/\n4:memory:/docker/4f2a\n0::/\n", "/docker/4f2a"},
		{"9:name=systemd:/a:b\n0::/c\n", "/a:b"},
		{"0::/\n", "/"},
		{"", ""},
		{"nonsense\n:\n::\n", ""},
	} {
		if got := parseCgroup([]byte(tt.file)); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.file, got, tt.want)
		}
	}
}

func TestUnitOf(t *testing.T) {
	for _, tt := range []struct{ path, base, unit, unitPath string }{
		{"/system.slice/ssh.service", "", "ssh.service", "/system.slice/ssh.service"},
		{"/system.slice/web.service/sub/x", "", "web.service", "/system.slice/web.service"},
		{"/init.scope", "", "init.scope", "/init.scope"},
		{"/user.slice/user-0.slice/session-3.scope", "", "session-3.scope", "/user.slice/user-0.slice/session-3.scope"},
		{"/user.slice/user-0.slice/user@0.service/init.scope", "", "user@0.service/init.scope", "/user.slice/user-0.slice/user@0.service/init.scope"},
		{"/user.slice/user-0.slice/user@0.service", "", "user@0.service", "/user.slice/user-0.slice/user@0.service"},
		{"/machine.slice/box.service/system.slice/ssh.service", "", "box.service", "/machine.slice/box.service"},
		{"/outer.service/h1/system.slice/ssh.service", "/outer.service/h1", "ssh.service", "/outer.service/h1/system.slice/ssh.service"},
		{"/docker/4f2a", "", "", ""},
		{"/", "", "", ""},
		{"", "", "", ""},
	} {
		unit, unitPath := unitOf(tt.path, tt.base)
		if unit != tt.unit || unitPath != tt.unitPath {
			t.Errorf("%s: got %q at %q, want %q at %q", tt.path, unit, unitPath, tt.unit, tt.unitPath)
		}
	}
}

func TestParseMountinfo(t *testing.T) {
	got, err := parseMountinfo([]byte(`36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
37 35 7:3 / /mnt/a\040b\134c rw - ext4 /dev/loop3 rw
`))
	if err != nil || fmt.Sprint(got) != `[{98:0 /mnt2} {7:3 /mnt/a b\c}]` {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseMountinfo([]byte("36 35 98:0\n")); err == nil {
		t.Error("half a line was taken")
	}
}

const smiDoc = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<driver_version>550.54.15</driver_version>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:19:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<uuid>GPU-a</uuid>
		<ecc_errors>
			<volatile><sram_correctable>9</sram_correctable><sram_uncorrectable_parity>1</sram_uncorrectable_parity><dram_uncorrectable>2</dram_uncorrectable></volatile>
			<aggregate><dram_uncorrectable>70</dram_uncorrectable></aggregate>
		</ecc_errors>
		<utilization><gpu_util>97 %</gpu_util></utilization>
		<processes>
			<process_info><pid>4117</pid><type>C</type><process_name>python</process_name></process_info>
			<process_info><pid>4118</pid><type>G</type></process_info>
		</processes>
	</gpu>
	<gpu id="00000000:3B:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<uuid>GPU-b</uuid>
		<ecc_errors><volatile><double_bit><device_memory>3</device_memory><total>3</total></double_bit></volatile></ecc_errors>
		<utilization><gpu_util>N/A</gpu_util></utilization>
		<processes>
		</processes>
	</gpu>
</nvidia_smi_log>`

func TestParseSMI(t *testing.T) {
	r, err := parseSMI([]byte(smiDoc))
	want := `{550.54.15 [{GPU-a 0 NVIDIA H100 80GB HBM3 97 [4117 4118] 3} {GPU-b 1 NVIDIA H100 80GB HBM3 -1 [] 3}]  }`
	if err != nil || fmt.Sprint(r) != want {
		t.Errorf("got %v, %v\nwant %v", r, err, want)
	}
	for name, doc := range map[string]string{
		"a device is missing": strings.Replace(smiDoc, "<attached_gpus>2<", "<attached_gpus>3<", 1),
		"processes unknown":   strings.Replace(smiDoc, "<processes>\n\t\t</processes>", "<processes>N/A</processes>", 1),
		"no processes":        strings.Replace(smiDoc, "<processes>\n\t\t</processes>", "", 1),
		"pid is no number":    strings.Replace(smiDoc, "4117", "N/A", 1),
		"same uuid twice":     strings.Replace(smiDoc, "GPU-b", "GPU-a", 1),
		"cut short":           smiDoc[:900],
		"empty":               "",
	} {
		if r, err := parseSMI([]byte(doc)); err == nil {
			t.Errorf("%s: got %v", name, r)
		}
	}
}

func TestParseNVML(t *testing.T) {
	r, err := parseNVML([]byte(`{"driver":"550","devices":[{"uuid":"GPU-a","index":0,"name":"H100","util":5,"holders":[7],"errors":1}]}`))
	if err != nil || fmt.Sprint(r) != `{550 [{GPU-a 0 H100 5 [7] 1}]  }` {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err := parseNVML([]byte(`{"devices":[]}`)); err != nil || len(r.Devices) != 0 {
		t.Errorf("a driver without devices: %v, %v", r, err)
	}
	for _, doc := range []string{"", "{}", "null", `{"devices":null}`, `{"devices":[],"error":"lost"}`, `{"devices":[{"index":0}]}`,
		`{"devices":[{"uuid":"a","holders":[0]}]}`, `{"devices":[{"uuid":"a"},{"uuid":"a"}]}`} {
		if r, err := parseNVML([]byte(doc)); err == nil {
			t.Errorf("%s gave %v", doc, r)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Add([]byte("1 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 5"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseStat(b)
		if err == nil && (s.pid < 1 || !utf8.ValidString(s.comm)) {
			t.Errorf("%q gave %+v", b, s)
		}
	})
}

func FuzzCgroup(f *testing.F) {
	f.Add([]byte("1:name=systemd:/user.slice/user@0.service/a.scope\n0::/\n"), "/x")
	f.Fuzz(func(t *testing.T, b []byte, base string) {
		path := parseCgroup(b)
		unit, unitPath := unitOf(path, base)
		if (unit == "") != (unitPath == "") || !strings.HasPrefix(path, unitPath) || !strings.HasSuffix(unitPath, unit[strings.LastIndex(unit, "/")+1:]) {
			t.Errorf("%q in %q: unit %q at %q", b, path, unit, unitPath)
		}
	})
}

func FuzzMountinfo(f *testing.F) {
	f.Add([]byte("36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _ := parseMountinfo(b)
		for _, m := range list {
			if !utf8.ValidString(m.point) || m.dev == "" {
				t.Errorf("%q gave %q", b, m)
			}
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte("id = \"web-7\"\nkind = \"service\"\nttl = \"3m\"\nowns = { netns = \"ns-{id}\" }\n"))
	f.Add([]byte("id = 7"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err == nil && (m.ID == "" || m.Kind == "" || m.ttl < 0 || m.grace < 0 || !utf8.ValidString(m.ID)) {
			t.Errorf("%q gave %+v", b, m)
		}
	})
}

func FuzzSMI(f *testing.F) {
	f.Add([]byte(smiDoc))
	f.Fuzz(func(t *testing.T, b []byte) { checkReport(t, b, parseSMI) })
}

func FuzzNVML(f *testing.F) {
	f.Add([]byte(`{"driver":"550","devices":[{"uuid":"GPU-a","index":0,"holders":[7]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) { checkReport(t, b, parseNVML) })
}

func checkReport(t *testing.T, b []byte, parse func([]byte) (NVMLReport, error)) {
	r, err := parse(b)
	if err != nil {
		return
	}
	for _, d := range r.Devices {
		if d.UUID == "" {
			t.Errorf("%q gave a device without uuid", b)
		}
		for _, pid := range d.Holders {
			if pid < 1 {
				t.Errorf("%q gave pid %d", b, pid)
			}
		}
	}
}
