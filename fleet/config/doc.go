// Package config reads ebb's two files: fleet.toml, by which a console knows
// its control planes, classes and terminator, and ebbd.toml, by which an agent
// knows what its host's workloads look like and which commands it may run.
//
// It promises that a file which loads can be acted on: an unknown key, a wrong
// type, a duration, glob, class, role or placeholder that means nothing is an
// error that names the file and the line, and all of them are named at once.
// Nothing is read as "probably meant". No error repeats a URL, since URLs hold
// passwords.
//
// It opens no connection and runs nothing. Files in, values out.
package config
