package sshlink

import (
	"slices"
	"testing"
)

func TestAliases(t *testing.T) {
	c, _, err := loadText(t, "Host web-1 web-2\n  User kim\nHost *.internal !bad\n  Port 2222\nHost db\n  HostName 10.0.0.9\nHost *\n  User root\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Aliases(), []string{"db", "web-1", "web-2"}; !slices.Equal(got, want) {
		t.Errorf("aliases %v, want %v", got, want)
	}
}
