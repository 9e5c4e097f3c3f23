package ownershiptest

// cases is the suite, in the order of its files.
func cases() []testCase {
	type needs = []Capability
	return []testCase{
		{name: "FirstGrant", test: testFirstGrant},
		{name: "BadNames", test: testBadNames},
		{name: "EndedContext", test: testEndedContext},
		{name: "HeldErrorNamesTheOther", test: testHeldErrorNamesTheOther},
		{name: "SameNameStillRivals", test: testSameNameStillRivals},
		{name: "RaceOneWins", test: testRaceOneWins},
		{name: "TokensIncreaseOverReleases", test: testTokensIncreaseOverReleases},
		{name: "TokensIncreaseOverCrashes", needs: needs{Faults}, test: testTokensIncreaseOverCrashes},
		{name: "AcquireWakesAfterRelease", test: testAcquireWakesAfterRelease},
		{name: "WaitersOneAtATime", test: testWaitersOneAtATime},
		{name: "OneProcessTakesTurns", test: testOneProcessTakesTurns},
		{name: "CancelAtEveryPoint", needs: needs{Faults}, test: testCancelAtEveryPoint},
		{name: "LostAnswers", needs: needs{Faults}, test: testLostAnswers},
		{name: "UnknownIsReported", needs: needs{Faults}, test: testUnknownIsReported},
		{name: "ThrottledIsBackOff", needs: needs{Faults}, test: testThrottledIsBackOff},
		{name: "AcquireMany", needs: needs{AcquiresMany}, test: testAcquireMany},

		{name: "StaysHeld", test: testStaysHeld},
		{name: "CutOff", needs: needs{Faults}, test: testCutOff},
		{name: "RecoversInTime", needs: needs{Faults}, test: testRecoversInTime},
		{name: "Suspended", needs: needs{Faults, Suspends}, test: testSuspended},
		{name: "SuspendedPastEnd", needs: needs{Suspends}, test: testSuspendedPastEnd},
		{name: "SlowAnswer", needs: needs{Faults, Suspends}, test: testSlowAnswer},
		{name: "TwoLostRenewals", needs: needs{Faults}, test: testTwoLostRenewals},
		{name: "SessionDropped", needs: needs{Faults, Drops}, test: testSessionDropped},
		{name: "Revoked", needs: needs{Revokes}, test: testRevoked},
		{name: "Stalled", test: testStalled},
		{name: "RunStartsAnew", needs: needs{Suspends}, test: testRunStartsAnew},

		{name: "ReleaseFrees", test: testReleaseFrees},
		{name: "ReleaseAfterWork", test: testReleaseAfterWork},
		{name: "LateRelease", needs: needs{Faults}, test: testLateRelease},
		{name: "ReleaseLostAnswer", needs: needs{Faults}, test: testReleaseLostAnswer},
		{name: "ReleaseInBackground", test: testReleaseInBackground},
		{name: "CloseOrder", test: testCloseOrder},
		{name: "CloseIdempotent", test: testCloseIdempotent},
		{name: "CloseWhileAcquiring", needs: needs{Faults}, test: testCloseWhileAcquiring},
		{name: "CloseBounded", test: testCloseBounded},
		{name: "CloseCutOff", needs: needs{Faults}, test: testCloseCutOff},
		{name: "SilentAfterClose", needs: needs{Faults}, test: testSilentAfterClose},
		{name: "CloseDuringRenewal", needs: needs{Faults}, test: testCloseDuringRenewal},

		{name: "HolderVacancy", needs: needs{Faults}, test: testHolderVacancy},
		{name: "Watch", needs: needs{Faults}, test: testWatch},
		{name: "WatchSlowReader", test: testWatchSlowReader},
		{name: "WatchThroughTrouble", needs: needs{Faults}, test: testWatchThroughTrouble},
		{name: "Goroutines", alone: true, test: testGoroutines},
	}
}
