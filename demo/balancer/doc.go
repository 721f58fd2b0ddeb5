// Package balancer puts a real HAProxy in front of servers, and clients in front of
// that: by them tests see whether a serving workload that leaves its host cuts an
// answer short, or has one refused. It is for tests alone.
//
// A server streams the answer to /stream?for=DURATION: a line at a fixed pace for
// that long and then the line "end", with its name in the header X-Served-By. It is
// in rotation while /health answers 200.
package balancer
