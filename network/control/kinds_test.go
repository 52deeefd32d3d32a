package control

// Kinds lists every kind of event.
func Kinds() []Kind {
	return []Kind{
		EventEnrolled, EventReport, EventAnomaly, EventHeartbeat, EventSilence,
		EventVerificationRequested, EventVerificationStarted, EventDrained,
		EventDrain, EventUndrain, EventRetire, EventQuarantine, EventReadmit, EventApprove, EventOverrideSet,
		EventTick, EventVerificationTimedOut, EventOverrideExpired, EventDrainDeadline, EventPolicyChanged,
	}
}
