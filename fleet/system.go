package fleet

import "strings"

// DefaultSystem is what belongs to a common Linux host itself. The lists are
// written out rather than globbed where a glob would take workloads with it:
// systemd-nspawn@box.service is a container.
func DefaultSystem() SystemRules {
	return SystemRules{
		Units: strings.Fields(`
			init.scope user@*.service user-runtime-dir@*.service
			systemd-journald.service systemd-journald@*.service systemd-udevd.service systemd-logind.service
			systemd-networkd.service systemd-networkd-wait-online.service systemd-resolved.service systemd-timesyncd.service
			systemd-oomd.service systemd-hostnamed.service systemd-machined.service systemd-timedated.service
			systemd-localed.service systemd-userdbd.service systemd-homed.service systemd-importd.service
			systemd-coredump@*.service systemd-fsck*.service systemd-random-seed.service systemd-tmpfiles-*.service
			systemd-update-utmp*.service systemd-initctl.service systemd-bsod.service
			dbus.service dbus-broker.service dbus-org.*.service
			ssh.service sshd.service ssh@*.service sshd@*.service dropbear.service
			getty@*.service serial-getty@*.service console-getty.service container-getty@*.service
			cron.service crond.service anacron.service atd.service
			rsyslog.service syslog.service syslog-ng.service
			chrony.service chronyd.service ntp.service ntpd.service ntpsec.service openntpd.service
			networking.service ifup@*.service dhcpcd.service dhclient*.service NetworkManager*.service networkd-dispatcher.service
			wpa_supplicant.service ModemManager.service rpcbind.service nscd.service nslcd.service sssd.service
			polkit.service polkitd.service udisks2.service upower.service accounts-daemon.service packagekit.service
			unattended-upgrades.service apt-daily*.service dnf-*.service fwupd.service snapd.service
			irqbalance.service thermald.service acpid.service tuned.service smartd.service smartmontools.service
			mcelog.service rasdaemon.service mdmonitor.service multipathd.service iscsid.service lvm2-*.service dm-event.service
			rngd.service haveged.service auditd.service lldpd.service firewalld.service fail2ban.service
			qemu-guest-agent.service cloud-init*.service cloud-config.service cloud-final.service
			google-guest-agent*.service walinuxagent.service amazon-ssm-agent.service
			nvidia-persistenced.service nvidia-fabricmanager.service ebbd.service`),
		Exes: strings.Fields(`
			sshd sshd-session sshd-auth dropbear login agetty getty mgetty
			systemd systemd-executor systemd-journald systemd-udevd systemd-logind systemd-networkd systemd-resolved
			systemd-timesyncd systemd-oomd systemd-hostnamed systemd-machined systemd-timedated systemd-userdbd systemd-userwork
			udevd dbus-daemon dbus-broker dbus-broker-launch
			cron crond anacron atd rsyslogd syslog-ng syslogd klogd
			chronyd ntpd dhclient dhcpcd udhcpc NetworkManager wpa_supplicant
			polkitd irqbalance acpid auditd haveged rngd multipathd dmeventd rpcbind nscd
			tini qemu-ga nvidia-persistenced`),
		Netns: []string{},
		Loops: []string{"/var/lib/snapd/snaps/*.snap"},
	}
}
