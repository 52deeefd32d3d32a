package assay

import "encoding/json"

// Manifest is run.json: what was asked, of whom, and where. It is written
// first, and never changed.
type Manifest struct {
	Format  string      `json:"format"` // RunFormat
	ID      string      `json:"id"`     // a ULID
	Created int64       `json:"created_ns"`
	Node    Node        `json:"node"`
	Engine  Engine      `json:"engine"`
	Client  *Client     `json:"client,omitempty"` // absent: a run of before 0.2
	Clock   ClockSource `json:"clock"`
	Seed    uint64      `json:"seed"`
	// Nonce is hexadecimal: random, or what an auditor gave before the run. A
	// statement that repeats it was not made before it was known.
	Nonce   string          `json:"nonce,omitempty"`
	Version Version         `json:"version"`
	Config  json.RawMessage `json:"config"` // the resolved configuration that ran; no secrets
	// Judge is what the summary needs of the configuration.
	Judge Judge `json:"judge"`
}

// Judge is how a run wants to be summarised.
type Judge struct {
	// Goodput are the limits that a request must keep to count as good.
	Goodput []Limit `json:"goodput,omitempty"`
	// Objectives are what a stage must keep; a search looks for the highest load that does.
	Objectives []Objective `json:"objectives,omitempty"`
	// Percentiles are the levels to report besides 50, 90, 95 and 99.
	Percentiles []float64 `json:"percentiles,omitempty"`
	// Baseline is what the node's health is compared with; nil: none was given.
	Baseline *Baseline `json:"baseline,omitempty"`
	// PricePerHour is what renting the node costs, EnergyRate what a kWh costs.
	PricePerHour *Money `json:"price_per_hour,omitempty"`
	EnergyRate   *Money `json:"energy_rate_per_kwh,omitempty"`
	// ModelSize is the number of parameters that the workload is for, as 7B;
	// empty: any.
	ModelSize string `json:"model_size,omitempty"`
	// Search says what the stages looked for: "", "saturate", "find-max-rate", "find-max-concurrency", "sustain".
	Search Search `json:"search,omitempty"`
}

// Search is what a run's stages look for.
type Search string

// The searches.
const (
	SearchNone           Search = ""
	SearchSaturate       Search = "saturate"
	SearchMaxRate        Search = "find-max-rate"
	SearchMaxConcurrency Search = "find-max-concurrency"
	SearchSustain        Search = "sustain"
)

// ClockSource says whose clock the arrivals are by.
type ClockSource string

// The two clocks of MEASUREMENT: the kernel's receive stamp, or our own clock
// when the read returned.
const (
	ClockKernel ClockSource = "kernel"
	ClockUser   ClockSource = "user"
)

// Node is the machine that measured.
type Node struct {
	ID          string `json:"id"`
	Hostname    string `json:"hostname"`
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Kernel      string `json:"kernel,omitempty"`
	CPU         string `json:"cpu_model,omitempty"`
	Cores       int    `json:"cpu_cores"` // that the process may use
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	GPUs        []GPU  `json:"gpus"` // empty: none were found
}

// GPU is one accelerator, self-reported. What it does not say is absent.
type GPU struct {
	UUID             string  `json:"uuid"`
	Name             string  `json:"name"`
	Index            int     `json:"index"`
	Source           string  `json:"source,omitempty"` // who said so: nvml, nvidia-smi, amdgpu, dcgm
	MemoryBytes      int64   `json:"memory_bytes,omitempty"`
	PCIBusID         string  `json:"pci_bus_id,omitempty"`
	Serial           string  `json:"serial,omitempty"`
	VBIOS            string  `json:"vbios,omitempty"`
	Driver           string  `json:"driver,omitempty"`
	CUDA             string  `json:"cuda,omitempty"`
	SMCount          int     `json:"sm_count,omitempty"` // or compute units
	BusWidthBits     int     `json:"bus_width_bits,omitempty"`
	MaxSMClockHz     float64 `json:"max_sm_clock_hertz,omitempty"`
	MaxMemoryClockHz float64 `json:"max_memory_clock_hertz,omitempty"`
	PowerLimitWatts  float64 `json:"power_limit_watts,omitempty"`
	MIG              string  `json:"mig,omitempty"`  // enabled, disabled; absent: not known
	VGPU             string  `json:"vgpu,omitempty"` // none, passthrough, vgpu, host…; absent: not known
}

// Engine is what answered.
type Engine struct {
	URL     string `json:"url"`
	Backend string `json:"backend"` // openai-chat, openai, ollama…
	Model   string `json:"model"`
	// Version is what the engine says of itself; empty if it says nothing.
	Version string `json:"version,omitempty"`
	// Replica is its name on its node, where the node is one of a network.
	Replica string `json:"replica,omitempty"`
	// ModelParameters and ModelBytes are how large it says that the model is: the
	// bytes of its weights as they are kept. Zero: it does not say.
	ModelParameters float64 `json:"model_parameters,omitempty"`
	ModelBytes      int64   `json:"model_bytes,omitempty"`
}

// Client is how the measuring process competed for processors.
type Client struct {
	Priority string `json:"priority"` // what it got: normal, high, realtime
	Nice     int    `json:"nice"`
	// SessionNice is the nice value of its session, where the kernel shares
	// processors among sessions first; 0: not raised.
	SessionNice int    `json:"session_nice,omitempty"`
	Why         string `json:"why,omitempty"` // it got less than was asked
}

// Version is what measured.
type Version struct {
	Assay string `json:"assay"`
	Go    string `json:"go"`
	// BinarySHA256 is of the program's file, in hexadecimal; empty: not known.
	BinarySHA256 string `json:"binary_sha256,omitempty"`
}

// Status is how far a run came.
type Status string

// The statuses. A run directory without a summary, or whose checkpoint still
// says running although nobody writes it, reads as partial.
const (
	StatusRunning  Status = "running"
	StatusComplete Status = "complete"
	StatusPartial  Status = "partial" // interrupted; what there is can be used
)

// Checkpoint is checkpoint.json, replaced every second. Progress lines, the
// live view and exported metrics all show a Checkpoint and nothing else.
type Checkpoint struct {
	At        int64           `json:"t_ns"`
	Status    Status          `json:"status"`
	Stage     string          `json:"stage,omitempty"`
	StageN    int             `json:"stage_number"`          // from 1
	StageOf   int             `json:"stage_count,omitempty"` // 0: a search does not know yet
	ElapsedNS int64           `json:"elapsed_ns"`
	LeftNS    int64           `json:"left_ns,omitempty"` // estimate; 0: unknown
	Sent      int             `json:"sent"`
	Done      int             `json:"done"`
	InFlight  int             `json:"in_flight"`
	Waiting   int             `json:"waiting,omitempty"` // scheduled, held by the cap
	Errors    map[Failure]int `json:"errors,omitempty"`
	// Of the last ten seconds of this stage; absent when nothing came.
	RequestRate float64  `json:"requests_per_second"`
	TokenRate   float64  `json:"output_tokens_per_second"`
	TTFTp50     *float64 `json:"ttft_ms_p50,omitempty"`
	TTFTp99     *float64 `json:"ttft_ms_p99,omitempty"`
	// Offsets of the appended files that this checkpoint covers, by name: what
	// lies behind was written after it.
	Offsets map[string]int64 `json:"offsets,omitempty"`
}
