package words

import "ebb/fleet"

// OfHost says whether a check of the gate can only be answered by reading the host.
// What was lost stands in the journal.
func OfHost(check string) bool { return check != fleet.CheckLost }

// Unreached is what stands at a check of a host that can't be read: one without a
// reading never holds.
const Unreached = "not read: unreachable"
