package assay

// ReadingName defines one name of telemetry.jsonl.
type ReadingName struct {
	Name    string
	Unit    string
	Counter bool // only rises, until its owner starts anew
	// DCGM is the alias that --dcgm-names exports beside ours, in DCGM's own
	// unit: our value times DCGMFactor. Empty: DCGM has no such field.
	DCGM       string
	DCGMFactor float64
	Help       string
}

// Names of readings of a GPU. A flag is 0 or 1.
const (
	GPUUtilization       = "gpu_utilization_ratio"
	GPUMemoryUtilization = "gpu_memory_utilization_ratio"
	GPUMemoryTotal       = "gpu_memory_total_bytes"
	GPUMemoryUsed        = "gpu_memory_used_bytes"
	GPUMemoryFree        = "gpu_memory_free_bytes"
	GPUTemperature       = "gpu_temperature_celsius"
	GPUMemoryTemperature = "gpu_memory_temperature_celsius"
	GPUPower             = "gpu_power_watts"
	GPUPowerInstant      = "gpu_power_instant"
	GPUPowerLimit        = "gpu_power_limit_watts"
	GPUEnergy            = "gpu_energy_joules_total"
	GPUSMClock           = "gpu_sm_clock_hertz"
	GPUSMClockMax        = "gpu_sm_clock_max_hertz"
	GPUMemoryClock       = "gpu_memory_clock_hertz"
	GPUMemoryClockMax    = "gpu_memory_clock_max_hertz"
	GPUFanSpeed          = "gpu_fan_speed_ratio"

	GPUThrottledIdle       = "gpu_throttled_idle"
	GPUThrottledAppClocks  = "gpu_throttled_app_clocks"
	GPUThrottledPowerCap   = "gpu_throttled_sw_power_cap"
	GPUThrottledHWSlowdown = "gpu_throttled_hw_slowdown"
	GPUThrottledSyncBoost  = "gpu_throttled_sync_boost"
	GPUThrottledSWThermal  = "gpu_throttled_sw_thermal"
	GPUThrottledHWThermal  = "gpu_throttled_hw_thermal"
	GPUThrottledPowerBrake = "gpu_throttled_power_brake"
	GPUThrottledDisplay    = "gpu_throttled_display_clock"
	GPUPowerCapSeconds     = "gpu_throttled_sw_power_cap_seconds_total"
	GPUSWThermalSeconds    = "gpu_throttled_sw_thermal_seconds_total"
	GPUHWThermalSeconds    = "gpu_throttled_hw_thermal_seconds_total"
	GPUPowerBrakeSeconds   = "gpu_throttled_power_brake_seconds_total"
	GPUECCCorrected        = "gpu_ecc_corrected_total"
	GPUECCUncorrected      = "gpu_ecc_uncorrected_total"
	GPURetiredPages        = "gpu_retired_pages"
	GPURowRemapPending     = "gpu_row_remap_pending"
	GPURowRemapFailed      = "gpu_row_remap_failed"
	GPUXID                 = "gpu_xid"
	GPULost                = "gpu_lost"
	GPURecoveryAction      = "gpu_recovery_action"
	GPUPCIeReplays         = "gpu_pcie_replays_total"
	GPUPCIeLinkWidth       = "gpu_pcie_link_width"
	GPUPCIeLinkWidthMax    = "gpu_pcie_link_width_max"
	GPUPCIeLinkGeneration  = "gpu_pcie_link_generation"
	GPUPCIeLinkGenMax      = "gpu_pcie_link_generation_max"
	GPUNVLinkErrors        = "gpu_nvlink_errors_total"
	GPUNVLinksDown         = "gpu_nvlinks_down"
	GPUFabricReady         = "gpu_fabric_ready"
	GPUPeersUnreachable    = "gpu_peers_unreachable"
	GPUProcesses           = "gpu_processes"
	GPUProcessMemory       = "gpu_process_memory_bytes"
	GPUEngineProcess       = "gpu_engine_process"
)

// Names of readings of the host.
const (
	HostCPU             = "host_cpu_utilization_ratio"
	HostCPUFrequency    = "host_cpu_frequency_hertz"
	HostTemperature     = "host_temperature_celsius"
	HostMemoryUsed      = "host_memory_used_bytes"
	HostMemoryAvailable = "host_memory_available_bytes"
	HostPressureCPU     = "host_pressure_cpu_seconds_total"
	HostPressureMemory  = "host_pressure_memory_seconds_total"
	HostPressureIO      = "host_pressure_io_seconds_total"
	HostDiskRead        = "host_disk_read_bytes_total"
	HostDiskWritten     = "host_disk_written_bytes_total"
	HostNetworkReceived = "host_network_received_bytes_total"
	HostNetworkSent     = "host_network_sent_bytes_total"
)

// Names of what an engine says of itself, whatever its own names are.
const (
	EngineRunning        = "engine_requests_running"
	EngineWaiting        = "engine_requests_waiting"
	EngineKVCache        = "engine_kv_cache_usage_ratio"
	EnginePreemptions    = "engine_preemptions_total"
	EnginePromptTokens   = "engine_prompt_tokens_total"
	EngineOutputTokens   = "engine_generation_tokens_total"
	EngineResidentMemory = "engine_resident_memory_bytes"
	EngineStarted        = "engine_start_time_seconds"
)

// readingNames is the one table of them; docs/telemetry.md is made from it.
var readingNames = []ReadingName{
	{GPUUtilization, "ratio", false, "DCGM_FI_DEV_GPU_UTIL", 100, "Share of the last sixth of a second to second in which some kernel ran. A duty cycle: it is reported, and never steers or scores."},
	{GPUMemoryUtilization, "ratio", false, "DCGM_FI_DEV_MEM_COPY_UTIL", 100, "Share of the same time in which device memory was read or written."},
	{GPUMemoryTotal, "bytes", false, "", 0, "Device memory."},
	{GPUMemoryUsed, "bytes", false, "DCGM_FI_DEV_FB_USED", 1. / (1 << 20), "Device memory in use, the driver's reserve left out where it says how much that is."},
	{GPUMemoryFree, "bytes", false, "DCGM_FI_DEV_FB_FREE", 1. / (1 << 20), "Device memory free."},
	{GPUTemperature, "celsius", false, "DCGM_FI_DEV_GPU_TEMP", 1, "Temperature of the chip."},
	{GPUMemoryTemperature, "celsius", false, "DCGM_FI_DEV_MEMORY_TEMP", 1, "Temperature of the memory."},
	{GPUPower, "watts", false, "DCGM_FI_DEV_POWER_USAGE", 1, "Power draw: of the instant where the driver gives it, else its average of a second."},
	{GPUPowerInstant, "flag", false, "", 0, "1: gpu_power_watts is the instant's; 0: an average."},
	{GPUPowerLimit, "watts", false, "DCGM_FI_DEV_POWER_MGMT_LIMIT", 1, "Enforced power limit."},
	{GPUEnergy, "joules", true, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1000, "Energy used since the driver was loaded."},
	{GPUSMClock, "hertz", false, "DCGM_FI_DEV_SM_CLOCK", 1e-6, "Clock of the multiprocessors."},
	{GPUSMClockMax, "hertz", false, "", 0, "Its maximum."},
	{GPUMemoryClock, "hertz", false, "DCGM_FI_DEV_MEM_CLOCK", 1e-6, "Clock of the memory."},
	{GPUMemoryClockMax, "hertz", false, "", 0, "Its maximum."},
	{GPUFanSpeed, "ratio", false, "DCGM_FI_DEV_FAN_SPEED", 100, "Fan speed."},
	{GPUThrottledIdle, "flag", false, "", 0, "Clocks are low because nothing runs."},
	{GPUThrottledAppClocks, "flag", false, "", 0, "Clocks are held by a setting."},
	{GPUThrottledPowerCap, "flag", false, "", 0, "Clocks are held by the software power limit. Normal under load."},
	{GPUThrottledHWSlowdown, "flag", false, "", 0, "Hardware slowdown: clocks are halved or worse, by heat, power brake or a fault."},
	{GPUThrottledSyncBoost, "flag", false, "", 0, "Clocks follow another GPU of the group."},
	{GPUThrottledSWThermal, "flag", false, "", 0, "The driver lowers clocks because of heat."},
	{GPUThrottledHWThermal, "flag", false, "", 0, "The hardware lowers clocks because of heat."},
	{GPUThrottledPowerBrake, "flag", false, "", 0, "The power supply demands lower clocks."},
	{GPUThrottledDisplay, "flag", false, "", 0, "Clocks are held by a display."},
	{GPUPowerCapSeconds, "seconds", true, "DCGM_FI_DEV_POWER_VIOLATION", 1e9, "Time in which the software power limit held clocks."},
	{GPUSWThermalSeconds, "seconds", true, "DCGM_FI_DEV_THERMAL_VIOLATION", 1e9, "Time in which the driver lowered clocks because of heat."},
	{GPUHWThermalSeconds, "seconds", true, "", 0, "Time in which the hardware lowered clocks because of heat."},
	{GPUPowerBrakeSeconds, "seconds", true, "", 0, "Time in which the power brake was on."},
	{GPUECCCorrected, "1", true, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 1, "Corrected memory errors since the driver was loaded."},
	{GPUECCUncorrected, "1", true, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1, "Uncorrectable memory errors since the driver was loaded."},
	{GPURetiredPages, "1", false, "", 0, "Memory pages taken out of use, for single and double bit errors."},
	{GPURowRemapPending, "flag", false, "DCGM_FI_DEV_ROW_REMAP_PENDING", 1, "A row of memory waits for a reset to be replaced."},
	{GPURowRemapFailed, "flag", false, "DCGM_FI_DEV_ROW_REMAP_FAILURE", 1, "A row of memory could not be replaced."},
	{GPUXID, "code", false, "DCGM_FI_DEV_XID_ERRORS", 1, "An error of the driver's list; one reading for each that occurred."},
	{GPULost, "flag", false, "", 0, "1: the GPU fell off the bus."},
	{GPURecoveryAction, "code", false, "", 0, "What the driver asks for: 0 none, 1 reset of the GPU, 2 reboot of the node, 3 drain peer to peer traffic, 4 drain and reset; later drivers have more."},
	{GPUPCIeReplays, "1", true, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 1, "Transfers over PCIe that had to be repeated."},
	{GPUPCIeLinkWidth, "lanes", false, "", 0, "PCIe lanes in use."},
	{GPUPCIeLinkWidthMax, "lanes", false, "", 0, "PCIe lanes that card and slot could use."},
	{GPUPCIeLinkGeneration, "1", false, "", 0, "PCIe generation in use; cards lower it while idle."},
	{GPUPCIeLinkGenMax, "1", false, "", 0, "PCIe generation that card and slot could use."},
	{GPUNVLinkErrors, "1", true, "", 0, "Errors on NVLink: replays, recoveries, CRC, of all links."},
	{GPUNVLinksDown, "1", false, "", 0, "NVLinks of the card that are not up, where it has some that are."},
	{GPUFabricReady, "flag", false, "", 0, "1: the fabric manager has finished with success."},
	{GPUPeersUnreachable, "1", false, "", 0, "Other GPUs of the node that this one cannot reach over NVLink although links lead there."},
	{GPUProcesses, "1", false, "", 0, "Processes that compute on the GPU, of every namespace."},
	{GPUProcessMemory, "bytes", false, "", 0, "Device memory of processes that compute, by the driver's word."},
	{GPUEngineProcess, "flag", false, "", 0, "1: the engine's process is among them. Absent where process ids are another namespace's."},
	{HostCPU, "ratio", false, "", 0, "Share of time that a core, or without a device all of them, was busy."},
	{HostCPUFrequency, "hertz", false, "", 0, "Clock of a core."},
	{HostTemperature, "celsius", false, "", 0, "Temperature of a processor: that of its package where it has such a sensor, else its hottest."},
	{HostMemoryUsed, "bytes", false, "", 0, "Memory in use."},
	{HostMemoryAvailable, "bytes", false, "", 0, "Memory that is available without swapping."},
	{HostPressureCPU, "seconds", true, "", 0, "Time in which something waited for a processor."},
	{HostPressureMemory, "seconds", true, "", 0, "Time in which something waited for memory."},
	{HostPressureIO, "seconds", true, "", 0, "Time in which something waited for a disk."},
	{HostDiskRead, "bytes", true, "", 0, "Read from disks."},
	{HostDiskWritten, "bytes", true, "", 0, "Written to disks."},
	{HostNetworkReceived, "bytes", true, "", 0, "Received over networks other than loopback."},
	{HostNetworkSent, "bytes", true, "", 0, "Sent over networks other than loopback."},
	{EngineRunning, "1", false, "", 0, "Requests that the engine works on."},
	{EngineWaiting, "1", false, "", 0, "Requests that wait in the engine's queue."},
	{EngineKVCache, "ratio", false, "", 0, "Share of the KV cache in use."},
	{EnginePreemptions, "1", true, "", 0, "Requests that the engine put back to make room."},
	{EnginePromptTokens, "tokens", true, "", 0, "Input tokens that the engine processed."},
	{EngineOutputTokens, "tokens", true, "", 0, "Output tokens that the engine made."},
	{EngineResidentMemory, "bytes", false, "", 0, "Memory of the engine's process."},
	{EngineStarted, "seconds", false, "", 0, "When the engine's process began; a later value is a restart."},
}

// ReadingNames gives the table in the order of the documentation. The names of
// the client's own readings are in docs/formats/run.md.
func ReadingNames() []ReadingName { return append([]ReadingName(nil), readingNames...) }
