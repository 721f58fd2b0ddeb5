package station

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"ebb/fleet"
)

// installScript puts the agent in place of an older one without ever leaving
// half a file, and (re)starts it where systemd runs. What it started before goes
// on: the unit ends only the agent itself.
const installScript = `set -e
umask 022
cat > /usr/local/bin/.ebbd.new
chmod 755 /usr/local/bin/.ebbd.new
/usr/local/bin/.ebbd.new version >/dev/null
mv /usr/local/bin/.ebbd.new /usr/local/bin/ebbd
if [ -d /run/systemd/system ]; then
  /usr/local/bin/ebbd unit systemd > /etc/systemd/system/ebbd.service
  systemctl daemon-reload
  systemctl enable ebbd.service >/dev/null 2>&1
  systemctl restart ebbd.service
  echo "ebbd runs under systemd"
else
  echo "ebbd is installed; there is no systemd: start it with /usr/local/bin/ebbd serve"
fi
`

// Install copies an ebbd program to a host over SSH and starts it.
func (s *Station) Install(ctx context.Context, id fleet.HostID, program string) (string, error) {
	h, err := s.host(ctx, id)
	if err != nil {
		return "", err
	}
	f, err := os.Open(program)
	if err != nil {
		return "", fmt.Errorf("install the agent on %s: %w", id, err)
	}
	defer f.Close()
	conn, err := s.pool.Conn(ctx, h.Address)
	if err != nil {
		return "", fmt.Errorf("install the agent on %s: %w", id, err)
	}
	command := "sh -c " + quote(installScript)
	if s.Config.SSH.Sudo {
		command = "sudo -n " + command
	}
	stream, err := conn.Exec(ctx, command)
	if err != nil {
		return "", fmt.Errorf("install the agent on %s: %w", id, err)
	}
	defer stream.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(stream, f)
		sent <- errors.Join(err, stream.CloseWrite())
	}()
	said, rerr := io.ReadAll(io.LimitReader(stream, 64<<10))
	werr := stream.Wait()
	if err := errors.Join(werr, rerr); err != nil {
		return "", fmt.Errorf("install the agent on %s: %w: %s", id, err, stream.Stderr())
	}
	if err := <-sent; err != nil {
		return "", fmt.Errorf("install the agent on %s: %w", id, err)
	}
	return string(said), nil
}
