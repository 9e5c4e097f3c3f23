package ownershiptest

// report is one failure of another library that was reported in public, and
// where its required behaviour is tested.
type report struct {
	source    string
	behaviour string
	tests     []string // of this suite
	elsewhere string   // the rest of it, or why it is no matter of an authority
}

// reports leads from every report in the project's list to its test. The test of
// this package checks that the tests named exist.
var reports = []report{
	{"kubernetes#23731", "seeing another holder means lost, signalled exactly once",
		[]string{"SessionDropped"}, ""},
	{"kubernetes PR #139991, pinniped#800", "work stops before release",
		[]string{"CloseOrder", "ReleaseAfterWork"}, ""},
	{"controller-runtime#2719", "closing while acquiring never runs the body",
		[]string{"CloseWhileAcquiring", "CloseIdempotent"}, ""},
	{"kubernetes#22775", "two processes with the same owner name are still rivals",
		[]string{"SameNameStillRivals"}, ""},
	{"kubernetes#112023", "release resolves an in-flight renewal of its own first",
		[]string{"CloseDuringRenewal"}, ""},
	{"etcd#22082, nexspence#223", "an old tenure cannot release a newer one",
		[]string{"LateRelease", "CutOff"}, "storetest.ReleaseLate for the store alone"},
	{"etcd#15247", "the store drops the lease early: the fence rejects, lost on the next renewal",
		[]string{"SessionDropped"}, "the rejection is the fence's: its own tests"},
	{"consul#18271", "silent transport: not Held within the TTL",
		[]string{"CutOff", "Suspended"}, ""},
	{"consul#9469", "N waiters spread out",
		[]string{"WaitersOneAtATime"}, "how many claims they cost: package memory, TestWaitersSpreadOut"},
	{"curator#980", "work never outlives the original deadline",
		[]string{"CutOff", "CloseBounded", "Stalled"}, ""},
	{"redsync#72", "the clock is checked after the reply",
		[]string{"SlowAnswer"}, ""},
	{"river PRs #217, #286", "no renewal after resignation",
		[]string{"SilentAfterClose"}, ""},
	{"hashicorp/raft#426", "observers do not steal from each other; the latest state is kept",
		[]string{"Watch", "WatchSlowReader"}, ""},
	{"cockroach#131639", "deadline and token never move backwards",
		[]string{"StaysHeld"}, "package ownership, TestStep, for proofs out of order"},
	{"azure-event-hubs-dotnet#115", "the token is fixed at the grant",
		[]string{"StaysHeld", "CutOff", "RunStartsAnew"}, ""},
	{"gocql#1308, atlasdb#2988, cqlmigrate#1", "a CAS timeout is unknown: resolved by attempt id with a SERIAL read",
		[]string{"LostAnswers", "CancelAtEveryPoint", "SessionDropped"}, "of a fenced write: the fence's tests"},
	{"temporal#2272", "after an unknown outcome of a write: settle it before the next one is sent",
		[]string{"ReleaseLostAnswer"}, "package memory, TestOneChangeInFlight, and the fence's tests"},
	{"cadence#300", "throttling is back-off, not a new token",
		[]string{"ThrottledIsBackOff"}, ""},
	{"temporal#935, scylladb#14019", "renewals rewrite every cell",
		[]string{"StaysHeld"}, "storetest.RenewRewritesEveryCell for the store alone"},
	{"ShedLock#466", "a CAS timeout is never downgraded to a log line",
		[]string{"UnknownIsReported", "CloseCutOff"}, ""},
	{"reaper#285", "renewals retry inside a budget; loss has its own path",
		[]string{"TwoLostRenewals", "RecoversInTime"}, ""},
	{"franz-go #1484, #1534", "a failed in-flight batch or abort does not kill the tenure silently",
		nil, "no matter of an authority: fenced writes into Kafka"},
	{"sarama #3491, franz-go #1500", "teardown is bounded",
		[]string{"CloseBounded", "CloseCutOff"}, ""},
	{"KAFKA-17754", "a late EndTxn never touches the next claim",
		nil, "no matter of an authority: fenced writes into Kafka"},
	{"Nomad LockLeaser", "conflict cancels the work first; no panic on close",
		[]string{"SessionDropped", "CloseIdempotent"}, ""},
}
