// Package themes turns a palette into the styles and signs the console draws
// with.
//
// A theme is a TOML file with two tables. [palette] gives colours a name;
// [roles] says which colour and which attributes each role on the screen has.
// One builder makes [Styles] of it, so a screen never names a colour. Built-in
// themes are such files too, embedded; a person may load their own from a path.
// Every mistake in a file is an error that names its line.
//
// [Glyphs] are the signs that stand beside the words: a set for UTF-8 locales
// and one of plain ASCII. Each state has a sign of its own in both sets, since
// colour is never the only carrier: the mono theme has none at all.
//
// The package reads files and nothing else: the environment and whether the
// terminal is dark come in as arguments.
package themes
