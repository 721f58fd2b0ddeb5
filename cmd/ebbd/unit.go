package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// unitFile comes up early, with the holds it held before, and never takes down
// what it has started.
const unitFile = `[Unit]
Description=ebb agent
DefaultDependencies=no
Requires=local-fs.target
After=local-fs.target systemd-remount-fs.service
Before=basic.target multi-user.target docker.service containerd.service kubelet.service slurmd.service
Conflicts=shutdown.target
Before=shutdown.target

[Service]
Type=notify
ExecStart=/usr/local/bin/ebbd serve
# Commands run in scopes of their own, and an upgrade ends only the agent.
KillMode=process
Restart=always
RestartSec=1s
RuntimeDirectory=ebb
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
StateDirectory=ebb
StateDirectoryMode=0700

[Install]
WantedBy=basic.target
`

const sudoersFile = `# One line per role; the groups are yours. Install as /etc/sudoers.d/ebb, mode 0440.
Defaults!/usr/local/bin/ebbd env_keep += "SSH_CONNECTION SSH_USER_AUTH SSH_ORIGINAL_COMMAND EBB_OPERATOR"
%oncall    ALL=(root) NOPASSWD: /usr/local/bin/ebbd dial-stdio --role observe, /usr/local/bin/ebbd dial-stdio --role cordon
%operators ALL=(root) NOPASSWD: /usr/local/bin/ebbd dial-stdio --role operate
%terminate ALL=(root) NOPASSWD: /usr/local/bin/ebbd dial-stdio --role terminate
`

const keysFile = `# ~/.ssh/authorized_keys: this key may cordon and nothing else.
restrict,command="ebbd dial-stdio --role cordon" ssh-ed25519 AAAA… oncall
`

func (c command) unit() *cobra.Command {
	files := map[string]string{"systemd": unitFile, "sudoers": sudoersFile, "keys": keysFile}
	return &cobra.Command{
		Use: "unit [systemd|sudoers|keys]", Short: "print the systemd unit, or examples for sudoers and keys",
		Args: cobra.MaximumNArgs(1), ValidArgs: []string{"systemd", "sudoers", "keys"},
		RunE: func(_ *cobra.Command, args []string) error {
			name := "systemd"
			if len(args) == 1 {
				name = args[0]
			}
			text, ok := files[name]
			if !ok {
				return &exit{status: 2, err: fmt.Errorf("unit %q: want systemd, sudoers or keys", name)}
			}
			_, err := fmt.Fprint(c.out, text)
			return err
		},
	}
}
