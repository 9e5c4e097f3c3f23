package lease_test

import "github.com/tenure-go/tenure/ownership/memory"

// modes are all that can happen to a request.
var modes = []memory.Mode{memory.Lose, memory.LoseAnswer, memory.Late, memory.Reject, memory.Slow, memory.SlowAnswer, memory.Hang}
