package main

import (
	"maps"
	"slices"
	"testing"
)

// Journeys in real terminals, each on hosts of its own of one fleet.
func TestJourneysOnOneFleet(t *testing.T) {
	t.Parallel()
	f := startTestFleet(t, 9)
	journeys := map[string]func(*testing.T, testFleet){
		"stopped and resumed":      stoppedAndResumed,
		"keys typed while stopped": keysWhileStopped,
		"signals while driving":    signalsWhileDriving,
		"a terminal that hangs":    terminalThatHangs,
		"a dumb terminal":          dumbTerminal,
		"confirmed terminate":      confirmedTerminate,
		"wide characters":          wideCharacters,
		"a narrow window":          narrowWindow,
		"parked and resumed":       parkedAndResumed,
	}
	t.Run("journeys", func(t *testing.T) { // ends when all of them have
		for _, name := range slices.Sorted(maps.Keys(journeys)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				journeys[name](t, f.with(t))
			})
		}
	})
}
