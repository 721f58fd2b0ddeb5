//go:build !linux

package demo

import "syscall"

const supported = false

func killScope(string) {}

func signalPID(string, string) error { return nil }

func signalTo(string, string, syscall.Signal) error { return nil }
