// Package version says which ebb this is; ebb and ebbd are released together.
package version

// Version is the release. Agents tell it in their magic line, consoles in a
// header.
const Version = "0.1.0"
