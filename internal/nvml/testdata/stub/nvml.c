/* A stub libnvidia-ml.so.1 that plays a scenario file, for tests only.
 *
 * The file is named by the environment variable ASSAY_STUB_NVML. One statement
 * a line; # begins a comment. SECONDS are scripted seconds.
 *
 *   gpus N                        how many there are, 1 to 16; comes first
 *   driver V | nvml V | cuda N    versions; cuda as 1000*major + 10*minor
 *   throttle_field 251|269        where this driver has the counters of throttled time
 *   scale X                       scripted seconds that pass in a real one
 *   epoch_unix_ms N               the scenario's second 0 on the wall clock, so
 *                                 that several processes share one time-line;
 *                                 without it, second 0 is the first nvmlInit
 *   init_return CODE              what nvmlInit returns
 *   init_hang 1                   nvmlInit never returns
 *   fail FUNCTION CODE            this call always returns CODE
 *   field_fail ID CODE            this field always gives CODE
 *   gpu N KEY VALUE               a constant; N may be * for all of them
 *   gpu N process PID BYTES       one more process that computes
 *   at SECONDS gpu N KEY VALUE [linear|step]
 *                                 a point of KEY's time-line. Between two points
 *                                 a linear key is interpolated, a step key keeps
 *                                 the earlier value. A constant is the point at 0.
 *   at SECONDS gpu N xid CODE     an event, delivered once to each event set
 *
 * Text keys: name uuid serial vbios part pci. The other keys are in TRACKS, with
 * their value at the start and how they go from point to point. Energy is the
 * integral of power, plus energy_jump; the ns counters of clock event reasons are
 * the integral of their bit. Both are over real seconds, so that a reader who
 * integrates the readings over the wall clock comes to the same at any scale.
 *
 * -DOLD_DRIVER leaves out the symbols that a driver of about 2018 did not have,
 * -DBARE all but the few that name a GPU. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int R;

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, NOT_FOUND = 6, VERSION_MISMATCH = 25 };
enum { MAXGPUS = 16, MAXXIDS = 64, MAXPROCS = 32, MAXFAILS = 64, LINKS = 18 };
enum mode { LINEAR, STEP };

/* name, start, mode; units: W, C, MHz, MB (10^6 bytes), percent */
#define TRACKS \
	T(power, 60, LINEAR) T(temperature, 35, LINEAR) T(memory_temperature, 40, LINEAR) \
	T(sm_clock, 1980, LINEAR) T(memory_clock, 2619, LINEAR) T(max_sm_clock, 1980, STEP) T(max_memory_clock, 2619, STEP) \
	T(utilization, 0, LINEAR) T(memory_utilization, 0, LINEAR) \
	T(memory_total, 85520, STEP) T(memory_reserved, 520, STEP) T(memory_used, 0, LINEAR) \
	T(reasons, 1, STEP) T(reasons_supported, 0x1ff, STEP) T(power_limit, 700, STEP) T(energy_base, 1000000, STEP) T(energy_jump, 0, STEP) T(fan, -1, LINEAR) \
	T(ecc_corrected, 0, STEP) T(ecc_uncorrected, 0, STEP) T(ecc, 1, STEP) \
	T(retired_sbe, 0, STEP) T(retired_dbe, 0, STEP) T(retired_pending, 0, STEP) T(retired_supported, 0, STEP) \
	T(remap_corrected, 0, STEP) T(remap_uncorrected, 0, STEP) T(remap_pending, 0, STEP) T(remap_failed, 0, STEP) \
	T(pcie_replays, 0, STEP) T(pcie_gen, 5, STEP) T(pcie_gen_max, 5, STEP) T(pcie_width, 16, STEP) T(pcie_width_max, 16, STEP) \
	T(nvlinks, 0, STEP) T(nvlinks_down, 0, STEP) T(nvlink_replays, 0, STEP) T(nvlink_recoveries, 0, STEP) T(nvlink_crc, 0, STEP) \
	T(peers_out, 0, STEP) T(fabric_state, 0, STEP) T(fabric_status, 0, STEP) T(fabric_health, 0, STEP) \
	T(recovery_action, 0, STEP) T(mig, 0, STEP) T(virtualization, 0, STEP) \
	T(cores, 16896, STEP) T(bus_width, 5120, STEP) T(capability, 90, STEP) \
	T(lost, 0, STEP) T(hang, 0, STEP) T(claimed_processes, 0, STEP) T(unterminated, 0, STEP)
#define T(n, v, m) n##_track,
enum track { TRACKS NTRACKS };
#undef T
#define T(n, v, m) { #n, v, m },
static const struct { const char *name; double start; enum mode mode; } tracks[] = { TRACKS };
#undef T

struct point { double at, value; enum mode mode; };
struct line { struct point *p; int n; };
struct gpu {
	struct line line[NTRACKS];
	char name[96], uuid[96], serial[32], vbios[32], part[80], pci[32];
	struct { double at; u64 code; } xid[MAXXIDS];
	struct { u32 pid; u64 bytes; } proc[MAXPROCS];
	int xids, procs;
};
typedef struct gpu *D;

static struct gpu gpus[MAXGPUS];
static int ngpus, inited, parsed, nfails, nfieldfails, init_return, init_hang, cuda = 13000, throttle_field = 269;
static char driver[80] = "580.82.07", nvml_version[80] = "13.580.82.07";
static double scale = 1, epoch;
static struct { char name[64]; int code; } fails[MAXFAILS];
static struct { int id, code; } fieldfails[MAXFAILS];

static double wall(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double now(void) { double t = (wall() - epoch) * scale; return t < 0 ? 0 : t; }

static void add(struct line *l, double at, double value, enum mode mode) {
	if (l->n > 0 && l->p[l->n - 1].at >= at) { /* later lines win; points come in order of time */
		l->p[l->n - 1].value = value;
		return;
	}
	l->p = realloc(l->p, (l->n + 1) * sizeof *l->p);
	l->p[l->n++] = (struct point){ at, value, mode };
}

static double value_of(const struct line *l, double t) {
	int i = 0;
	while (i + 1 < l->n && l->p[i + 1].at <= t) i++;
	if (i + 1 == l->n || l->p[i + 1].mode == STEP || t <= l->p[i].at) return l->p[i].value;
	double share = (t - l->p[i].at) / (l->p[i + 1].at - l->p[i].at);
	return l->p[i].value + share * (l->p[i + 1].value - l->p[i].value);
}

/* The integral from 0 to t: of the value, or with a mask of the seconds in which one of its bits is set. */
__attribute__((unused)) static double integral(const struct line *l, double t, u64 mask) {
	double sum = 0;
	for (int i = 0; i < l->n && l->p[i].at < t; i++) {
		double end = i + 1 < l->n && l->p[i + 1].at < t ? l->p[i + 1].at : t, d = end - l->p[i].at;
		double a = l->p[i].value, b = i + 1 < l->n && l->p[i + 1].mode == LINEAR ? value_of(l, end) : a;
		if (i + 1 < l->n && end == l->p[i + 1].at && l->p[i + 1].mode == LINEAR) b = l->p[i + 1].value;
		sum += mask ? ((u64)a & mask ? d : 0) : d * (a + b) / 2;
	}
	return sum;
}

static double get(D g, enum track k) { return value_of(&g->line[k], now()); }
__attribute__((unused)) static u32 getu(D g, enum track k) { double v = get(g, k); return v < 0 ? 0 : (u32)(v + 0.5); }

static void die(const char *line) { fprintf(stderr, "stub nvml: cannot read %s", line); exit(97); }

static void set(D g, double at, const char *key, const char *value, const char *mode, const char *line) {
	static const char *text[] = { "name", "uuid", "serial", "vbios", "part", "pci" };
	char *into[] = { g->name, g->uuid, g->serial, g->vbios, g->part, g->pci };
	size_t room[] = { sizeof g->name, sizeof g->uuid, sizeof g->serial, sizeof g->vbios, sizeof g->part, sizeof g->pci };
	for (int i = 0; i < 6; i++) if (!strcmp(key, text[i])) {
		const char *rest = strstr(line, key) + strlen(key); /* a text may have spaces */
		while (*rest == ' ') rest++;
		snprintf(into[i], room[i], "%.*s", (int)strcspn(rest, "\n#"), rest);
		return;
	}
	if (!strcmp(key, "xid")) {
		if (g->xids == MAXXIDS) die(line);
		g->xid[g->xids].at = at;
		g->xid[g->xids++].code = strtoull(value, 0, 0);
		return;
	}
	if (!strcmp(key, "process")) {
		if (g->procs == MAXPROCS) die(line);
		g->proc[g->procs].pid = strtoul(value, 0, 0);
		g->proc[g->procs++].bytes = strtoull(mode, 0, 0);
		return;
	}
	for (int k = 0; k < NTRACKS; k++) if (!strcmp(key, tracks[k].name)) {
		enum mode m = !strcmp(mode, "linear") ? LINEAR : !strcmp(mode, "step") ? STEP : tracks[k].mode;
		add(&g->line[k], at, strtod(value, 0), m);
		return;
	}
	die(line);
}

static void parse(void) {
	const char *path = getenv("ASSAY_STUB_NVML");
	FILE *f = path ? fopen(path, "r") : 0;
	char line[512], a[64], b[128], c[64], d[64];
	double at;
	parsed = 1;
	epoch = wall();
	if (!f) { fprintf(stderr, "stub nvml: ASSAY_STUB_NVML names no scenario\n"); exit(97); }
	while (fgets(line, sizeof line, f)) {
		char *s = line + strspn(line, " \t");
		if (*s == '#' || *s == '\n' || !*s) continue;
		*c = *d = *b = 0;
		if (sscanf(s, "gpus %d", &ngpus) == 1) {
			if (ngpus < 0 || ngpus > MAXGPUS) die(line);
			for (int i = 0; i < ngpus; i++) {
				D g = &gpus[i];
				for (int k = 0; k < NTRACKS; k++) add(&g->line[k], 0, tracks[k].start, tracks[k].mode);
				strcpy(g->name, "NVIDIA H100 80GB HBM3");
				snprintf(g->uuid, sizeof g->uuid, "GPU-57ab0000-0000-4000-8000-%012d", i);
				snprintf(g->serial, sizeof g->serial, "16520230%05d", i);
				strcpy(g->vbios, "96.00.74.00.01");
				strcpy(g->part, "692-2G520-0200-000");
				snprintf(g->pci, sizeof g->pci, "00000000:%02X:00.0", 0x1b + 0x10 * i);
			}
		} else if (sscanf(s, "driver %79s", driver) == 1 || sscanf(s, "nvml %79s", nvml_version) == 1 || sscanf(s, "cuda %d", &cuda) == 1 || sscanf(s, "throttle_field %d", &throttle_field) == 1) {
		} else if (sscanf(s, "scale %lf", &scale) == 1) {
		} else if (sscanf(s, "epoch_unix_ms %lf", &at) == 1) {
			epoch = at / 1e3;
		} else if (sscanf(s, "init_return %d", &init_return) == 1 || sscanf(s, "init_hang %d", &init_hang) == 1) {
		} else if (nfails < MAXFAILS && sscanf(s, "fail %63s %d", fails[nfails].name, &fails[nfails].code) == 2) {
			nfails++;
		} else if (nfieldfails < MAXFAILS && sscanf(s, "field_fail %d %d", &fieldfails[nfieldfails].id, &fieldfails[nfieldfails].code) == 2) {
			nfieldfails++;
		} else {
			at = 0;
			if (sscanf(s, "at %lf gpu %63s %63s %127s %63s", &at, a, c, b, d) < 4 && sscanf(s, "gpu %63s %63s %127s %63s", a, c, b, d) < 3) die(line);
			if (!ngpus || (*a != '*' && atoi(a) >= ngpus)) die(line);
			for (int i = 0; i < ngpus; i++) if (*a == '*' || atoi(a) == i) set(&gpus[i], at, c, b, d, strstr(s, "gpu"));
		}
	}
	fclose(f);
}

static R failing(const char *name) {
	for (int i = 0; i < nfails; i++) if (!strcmp(fails[i].name, name)) return fails[i].code;
	return OK;
}

static void hang(void) { for (;;) pause(); }

static R enter(D g, const char *name) {
	if (!inited) return UNINITIALIZED;
	if (g < gpus || g >= gpus + ngpus) return INVALID_ARGUMENT;
	if (get(g, hang_track)) hang();
	if (get(g, lost_track)) return 15;
	return failing(name);
}
#define ENTER(g) do { R r_ = enter(g, __func__); if (r_) return r_; } while (0)

static R put(D g, char *b, u32 n, const char *s) {
	if (get(g, unterminated_track)) { memset(b, 'A', n); return OK; }
	if (strlen(s) + 1 > n) return INSUFFICIENT_SIZE;
	strcpy(b, s);
	return OK;
}

static R init(void) {
	if (!parsed) parse();
	if (init_hang) hang();
	if (init_return) return init_return;
	inited++;
	return OK;
}
static R handle(u32 i, D *g) {
	if (!inited) return UNINITIALIZED;
	if ((int)i >= ngpus) return INVALID_ARGUMENT;
	if (get(&gpus[i], lost_track)) return 15;
	*g = &gpus[i];
	return OK;
}

R nvmlInit(void) { return init(); }
R nvmlShutdown(void) { if (inited) inited--; return OK; }
R nvmlDeviceGetCount(u32 *n) { *n = ngpus; return inited ? OK : UNINITIALIZED; }
R nvmlDeviceGetHandleByIndex(u32 i, D *g) { return handle(i, g); }
R nvmlDeviceGetName(D g, char *b, u32 n) { ENTER(g); return put(g, b, n, g->name); }
R nvmlDeviceGetUUID(D g, char *b, u32 n) { ENTER(g); return put(g, b, n, g->uuid); }

#ifndef BARE
struct pci2 { char legacy[16]; u32 domain, bus, device, id, sub, r[4]; }; /* v1 and v2 ended in reserved words */
struct pci3 { char legacy[16]; u32 domain, bus, device, id, sub; char bus_id[32]; };
struct util { u32 gpu, memory; };
struct memory { u64 total, free, used; };
struct memory2 { u32 version; u64 total, reserved, free, used; };
struct proc1 { u32 pid; u64 bytes; };
struct proc2 { u32 pid; u64 bytes; u32 gi, ci; };
struct field { u32 id, scope; long long stamp, latency; u32 type; R ret; union { double d; u64 u; u32 w; } v; };
struct event1 { D device; u64 type, data; };
struct event2 { D device; u64 type, data; u32 gi, ci; };
struct fabric { unsigned char uuid[16]; R status; u32 clique; unsigned char state; };
struct fabric2 { u32 version; unsigned char uuid[16]; R status; u32 clique; unsigned char state; u32 health; };
struct set { double last[MAXGPUS]; char on[MAXGPUS]; int sent[MAXGPUS]; };

static R text(char *b, u32 n, const char *s) { if (strlen(s) + 1 > n) return INSUFFICIENT_SIZE; strcpy(b, s); return OK; }
R nvmlSystemGetDriverVersion(char *b, u32 n) { return text(b, n, driver); }
R nvmlSystemGetNVMLVersion(char *b, u32 n) { return text(b, n, nvml_version); }
R nvmlSystemGetCudaDriverVersion(int *v) { *v = cuda; return failing(__func__); }
R nvmlDeviceGetSerial(D g, char *b, u32 n) { ENTER(g); return put(g, b, n, g->serial); }
R nvmlDeviceGetVbiosVersion(D g, char *b, u32 n) { ENTER(g); return put(g, b, n, g->vbios); }
R nvmlDeviceGetBoardPartNumber(D g, char *b, u32 n) { ENTER(g); return put(g, b, n, g->part); }
R nvmlDeviceGetCudaComputeCapability(D g, int *major, int *minor) { ENTER(g); int c = get(g, capability_track); *major = c / 10; *minor = c % 10; return OK; }
R nvmlDeviceGetUtilizationRates(D g, struct util *u) {
	ENTER(g);
	if (get(g, mig_track)) return NOT_SUPPORTED; /* as the driver does */
	*u = (struct util){ getu(g, utilization_track), getu(g, memory_utilization_track) };
	return OK;
}
R nvmlDeviceGetMemoryInfo(D g, struct memory *m) {
	ENTER(g);
	m->total = get(g, memory_total_track) * 1e6;
	m->used = (get(g, memory_used_track) + get(g, memory_reserved_track)) * 1e6;
	m->free = m->total - m->used;
	return OK;
}
R nvmlDeviceGetTemperature(D g, int sensor, u32 *t) { ENTER(g); if (sensor) return INVALID_ARGUMENT; *t = getu(g, temperature_track); return OK; }
R nvmlDeviceGetPowerUsage(D g, u32 *mw) { ENTER(g); *mw = get(g, power_track) * 1e3; return OK; }
static u64 energy(D g) { return (get(g, energy_base_track) + get(g, energy_jump_track) + integral(&g->line[power_track], now(), 0) / scale) * 1e3; }
R nvmlDeviceGetTotalEnergyConsumption(D g, u64 *mj) { ENTER(g); *mj = energy(g); return OK; }
R nvmlDeviceGetClockInfo(D g, int type, u32 *mhz) { ENTER(g); *mhz = getu(g, type == 2 ? memory_clock_track : sm_clock_track); return OK; }
R nvmlDeviceGetMaxClockInfo(D g, int type, u32 *mhz) { ENTER(g); *mhz = getu(g, type == 2 ? max_memory_clock_track : max_sm_clock_track); return OK; }
R nvmlDeviceGetEnforcedPowerLimit(D g, u32 *mw) { ENTER(g); *mw = get(g, power_limit_track) * 1e3; return OK; }
R nvmlDeviceGetFanSpeed(D g, u32 *percent) { ENTER(g); if (get(g, fan_track) < 0) return NOT_SUPPORTED; *percent = getu(g, fan_track); return OK; }
R nvmlDeviceGetCurrentClocksThrottleReasons(D g, u64 *bits) { ENTER(g); *bits = get(g, reasons_track); return OK; }
R nvmlDeviceGetSupportedClocksThrottleReasons(D g, u64 *bits) { ENTER(g); *bits = get(g, reasons_supported_track); return OK; }
R nvmlDeviceGetTotalEccErrors(D g, int type, int counter, u64 *n) {
	ENTER(g);
	(void)counter;
	if (!get(g, ecc_track)) return NOT_SUPPORTED;
	*n = get(g, type ? ecc_uncorrected_track : ecc_corrected_track);
	return OK;
}
R nvmlDeviceGetEccMode(D g, u32 *current, u32 *pending) { ENTER(g); *current = *pending = getu(g, ecc_track); return OK; }
R nvmlDeviceGetRetiredPages(D g, int cause, u32 *n, u64 *addresses) {
	ENTER(g);
	u32 have = getu(g, cause ? retired_dbe_track : retired_sbe_track), room = *n;
	if (!get(g, retired_supported_track)) return NOT_SUPPORTED;
	*n = have;
	if (have > room) return INSUFFICIENT_SIZE;
	for (u32 i = 0; i < have; i++) addresses[i] = 4096 * i;
	return OK;
}
R nvmlDeviceGetPcieReplayCounter(D g, u32 *n) { ENTER(g); *n = getu(g, pcie_replays_track); return OK; }
R nvmlDeviceGetCurrPcieLinkGeneration(D g, u32 *n) { ENTER(g); *n = getu(g, pcie_gen_track); return OK; }
R nvmlDeviceGetMaxPcieLinkGeneration(D g, u32 *n) { ENTER(g); *n = getu(g, pcie_gen_max_track); return OK; }
R nvmlDeviceGetCurrPcieLinkWidth(D g, u32 *n) { ENTER(g); *n = getu(g, pcie_width_track); return OK; }
R nvmlDeviceGetMaxPcieLinkWidth(D g, u32 *n) { ENTER(g); *n = getu(g, pcie_width_max_track); return OK; }
R nvmlDeviceGetVirtualizationMode(D g, u32 *m) { ENTER(g); *m = getu(g, virtualization_track); return OK; }

R nvmlDeviceGetNvLinkState(D g, u32 link, u32 *up) {
	ENTER(g);
	if (link >= getu(g, nvlinks_track)) return NOT_SUPPORTED;
	*up = link >= getu(g, nvlinks_down_track); /* the first ones go down */
	return OK;
}
R nvmlDeviceGetNvLinkErrorCounter(D g, u32 link, int counter, u64 *n) {
	static const enum track of[] = { nvlink_replays_track, nvlink_recoveries_track, nvlink_crc_track, NTRACKS };
	ENTER(g);
	if (link >= getu(g, nvlinks_track) || counter < 0 || counter > 3) return NOT_SUPPORTED;
	*n = counter < 3 && link == (counter == 2 ? getu(g, nvlinks_track) - 1 : 0) ? (u64)get(g, of[counter]) : 0;
	return OK;
}
R nvmlDeviceGetNvLinkRemoteDeviceType(D g, u32 link, u32 *type) { ENTER(g); if (link >= getu(g, nvlinks_track)) return NOT_SUPPORTED; *type = 2; return OK; }
R nvmlDeviceGetP2PStatus(D a, D b, int index, int *status) {
	ENTER(a);
	ENTER(b);
	(void)index;
	*status = get(a, peers_out_track) || get(b, peers_out_track) ? 5 : 0;
	return OK;
}

static R processes(D g, u32 *n, void *into, size_t size) {
	u32 room = *n, claimed = getu(g, claimed_processes_track);
	*n = claimed ? claimed : (u32)g->procs;
	if (claimed) return OK; /* a driver that claims more than there is room for */
	if ((u32)g->procs > room) return INSUFFICIENT_SIZE;
	for (int i = 0; i < g->procs; i++) {
		struct proc2 p = { g->proc[i].pid, g->proc[i].bytes, ~0u, ~0u };
		memcpy((char *)into + i * size, &p, size);
	}
	return OK;
}
R nvmlDeviceGetComputeRunningProcesses(D g, u32 *n, struct proc1 *p) { ENTER(g); return processes(g, n, p, sizeof *p); }

R nvmlEventSetCreate(struct set **s) {
	if (!inited) return UNINITIALIZED;
	*s = calloc(1, sizeof **s);
	return OK;
}
R nvmlDeviceRegisterEvents(D g, u64 types, struct set *s) {
	ENTER(g);
	(void)types;
	s->on[g - gpus] = 1;
	s->last[g - gpus] = now();
	return OK;
}
static R wait_event(struct set *s, struct event1 *e) {
	double t = now();
	for (int i = 0; i < ngpus; i++) while (s->on[i] && s->sent[i] < gpus[i].xids && gpus[i].xid[s->sent[i]].at <= t) {
		int k = s->sent[i]++;
		if (gpus[i].xid[k].at < s->last[i] && gpus[i].xid[k].at > 0) continue; /* before it listened */
		*e = (struct event1){ &gpus[i], 8, gpus[i].xid[k].code };
		return OK;
	}
	return TIMEOUT;
}
R nvmlEventSetWait(struct set *s, struct event1 *e, u32 ms) { (void)ms; R r = failing(__func__); return r ? r : wait_event(s, e); }
R nvmlEventSetFree(struct set *s) { free(s); return OK; }

static R field(D g, struct field *f) {
	double t = now();
	u64 bits = 0, links = getu(g, nvlinks_track);
	for (int i = 0; i < nfieldfails; i++) if (fieldfails[i].id == (int)f->id) return fieldfails[i].code;
	f->type = 3;
	switch (f->id) {
	case 82: f->type = 1; f->v.w = getu(g, memory_temperature_track); return OK;
	case 83: f->v.u = energy(g); return OK;
	case 91: f->type = 1; f->v.w = links; return OK;
	case 29: case 30: case 31:
		if (!get(g, retired_supported_track)) return NOT_SUPPORTED;
		f->v.u = getu(g, f->id == 29 ? retired_sbe_track : f->id == 30 ? retired_dbe_track : retired_pending_track);
		return OK;
	case 74: bits = 0x4; break;
	case 75: bits = 0x20; break;
#ifndef OLD_DRIVER
	case 161: case 162: case 163: case 165: /* of the link in scope; CRC errors are on the last one */
		if (f->scope >= links) return INVALID_ARGUMENT;
		if (f->id == 165) f->v.u = f->scope >= getu(g, nvlinks_down_track);
		else if (f->id == 163) f->v.u = f->scope == links - 1 ? get(g, nvlink_crc_track) : 0;
		else f->v.u = f->scope ? 0 : get(g, f->id == 161 ? nvlink_replays_track : nvlink_recoveries_track);
		return OK;
	case 186: f->type = 1; f->v.w = get(g, power_track) * 1e3; return OK;
	case 230: f->type = 1; f->v.w = getu(g, recovery_action_track); return OK;
	case 251: case 252: case 253: case 269: case 270: case 271: { /* throttle counters begin at one, power smoothing is at the other */
		int at = f->id < 269 ? 251 : 269;
		if (at != throttle_field) { f->type = 1; f->v.w = 7; return OK; }
		bits = 0x20u << (f->id - at);
		break;
	}
#endif
	default: return NOT_SUPPORTED;
	}
	f->v.u = integral(&g->line[reasons_track], t, bits) / scale * 1e9;
	return OK;
}
R nvmlDeviceGetFieldValues(D g, int n, struct field *f) {
	ENTER(g);
	for (int i = 0; i < n; i++) f[i].ret = field(g, &f[i]);
	return OK;
}

#ifdef OLD_DRIVER
R nvmlDeviceGetPciInfo(D g, struct pci2 *p) {
	ENTER(g);
	memset(p, 0, sizeof *p);
	snprintf(p->legacy, sizeof p->legacy, "%s", g->pci + 4);
	sscanf(g->pci, "%x:%x:%x", &p->domain, &p->bus, &p->device);
	return OK;
}
#else
R nvmlInit_v2(void) { return init(); }
R nvmlDeviceGetCount_v2(u32 *n) { return nvmlDeviceGetCount(n); }
R nvmlDeviceGetHandleByIndex_v2(u32 i, D *g) { return handle(i, g); }
R nvmlSystemGetCudaDriverVersion_v2(int *v) { return nvmlSystemGetCudaDriverVersion(v); }
R nvmlDeviceGetPciInfo_v3(D g, struct pci3 *p) {
	ENTER(g);
	memset(p, 0, sizeof *p);
	sscanf(g->pci, "%x:%x:%x", &p->domain, &p->bus, &p->device);
	p->id = 0x233010de;
	return put(g, p->bus_id, sizeof p->bus_id, g->pci);
}
R nvmlDeviceGetMemoryInfo_v2(D g, struct memory2 *m) {
	ENTER(g);
	if (m->version != (sizeof *m | 2u << 24)) return VERSION_MISMATCH;
	m->total = get(g, memory_total_track) * 1e6;
	m->reserved = get(g, memory_reserved_track) * 1e6;
	m->used = get(g, memory_used_track) * 1e6;
	m->free = m->total - m->reserved - m->used;
	return OK;
}
R nvmlDeviceGetCurrentClocksEventReasons(D g, u64 *bits) { ENTER(g); *bits = get(g, reasons_track); return OK; }
R nvmlDeviceGetRemappedRows(D g, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
	ENTER(g);
	if (get(g, mig_track)) return NOT_SUPPORTED;
	*corrected = getu(g, remap_corrected_track);
	*uncorrected = getu(g, remap_uncorrected_track);
	*pending = getu(g, remap_pending_track);
	*failed = getu(g, remap_failed_track);
	return OK;
}
R nvmlDeviceGetMigMode(D g, u32 *current, u32 *pending) { ENTER(g); *current = *pending = getu(g, mig_track); return OK; }
R nvmlDeviceGetNumGpuCores(D g, u32 *n) { ENTER(g); *n = getu(g, cores_track); return OK; }
R nvmlDeviceGetMemoryBusWidth(D g, u32 *n) { ENTER(g); *n = getu(g, bus_width_track); return OK; }
R nvmlDeviceGetComputeRunningProcesses_v3(D g, u32 *n, struct proc2 *p) { ENTER(g); return processes(g, n, p, sizeof *p); }
R nvmlEventSetWait_v2(struct set *s, struct event2 *e, u32 ms) {
	(void)ms;
	e->gi = e->ci = ~0u;
	R r = failing(__func__);
	return r ? r : wait_event(s, (struct event1 *)e);
}
R nvmlDeviceGetGpuFabricInfo(D g, struct fabric *f) {
	ENTER(g);
	*f = (struct fabric){ .status = getu(g, fabric_status_track), .state = getu(g, fabric_state_track) };
	return OK;
}
R nvmlDeviceGetGpuFabricInfoV(D g, struct fabric2 *f) {
	ENTER(g);
	if (f->version != (sizeof *f | 2u << 24)) return VERSION_MISMATCH;
	f->status = getu(g, fabric_status_track);
	f->state = getu(g, fabric_state_track);
	f->health = getu(g, fabric_health_track);
	return OK;
}
#endif
#endif
