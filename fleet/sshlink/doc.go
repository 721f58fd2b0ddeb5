// Package sshlink reaches hosts over SSH and yields byte streams.
//
// In goes a destination as a person would type it to ssh (an alias, user@host,
// host:port, ssh://…), read together with the user's ssh_config, agent, keys and
// known_hosts. Out comes a [Conn], shared by everyone who asks for the same
// place, and on it [Stream]s: one remote command each. [Conn.DialUnix] has sshd
// itself connect to a socket of the host, where it does that.
//
//	dest ─► Config.Resolve ─► Target ─► Pool ─► Conn ─► Exec ─► Stream
//	       (ssh_config)      (+ Via)   (one TCP, keepalive)   (bytes, exit status)
//
// What it promises:
//
//   - A host whose key is not in known_hosts is never spoken to, whatever
//     StrictHostKeyChecking says, and nothing is ever written to known_hosts.
//   - A dead connection ends. Every hop is asked for a sign of life, and one that
//     stays silent has its TCP connection closed, so nobody waits on it for ever.
//   - Closing is local: [Stream.Close] and [Pool.Close] return although the
//     other side has frozen.
//   - The far side's limits are respected: few handshakes at a time with an
//     address (sshd's MaxStartups), few sessions per connection (sshd's
//     MaxSessions).
//   - Every error says what failed, and its Hint method what to type next.
//
// What it never does: run a local command (ProxyCommand, Match exec), ask for a
// passphrase or a password, forward the agent, or retry without a delay.
package sshlink
