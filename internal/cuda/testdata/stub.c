/* A libcuda for tests. It checks how it is called, counts what is alive, and
 * computes what the kernels multiply, fill and inspect compute, on the CPU.
 * Built with -D of one of:
 *   NONE       all is well
 *   MISSING    a function is not there
 *   NODEVICE   no device
 *   INIT       cuInit fails
 *   HANG       a launch never returns
 *   CRASH      a launch kills the process
 *   WRONG      one element of a product is wrong
 *   STUCK      one bit of the memory is stuck
 *   ALIAS      two allocations of the same size lie on the same memory
 *   SMALL      allocations beyond 64 KiB fail
 *   LAUNCH     a launch is an error
 *   CLOCK      events say that no time has passed
 *   IMPOSTOR   a GPU that is named 4090 and has a 3090's processors
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t ptr;
static int contexts, modules, events, buffers, misuse;
static __thread int current; /* a context belongs to a thread */
static char trouble[256];

static int bad(const char *what) {
	misuse++;
	snprintf(trouble, sizeof trouble, "%s", what);
	return 1;
}

/* What tests ask. */
int stub_alive(void) { return contexts + modules + events + buffers; }
const char *stub_misuse(void) { return misuse ? trouble : ""; }

#ifndef IMPOSTOR
#define SMS 128
#else
#define SMS 82
#endif

int cuInit(unsigned flags) {
#ifdef INIT
	return 999;
#endif
	return flags ? bad("cuInit flags") : 0;
}
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuDeviceGetCount(int *n) {
#ifdef NODEVICE
	return 100;
#endif
	*n = 1;
	return 0;
}
int cuDeviceGet(int *d, int i) { *d = i; return i == 0 ? 0 : 101; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "NVIDIA GeForce RTX 4090"); return 0; }
int cuDeviceGetUuid(unsigned char *u, int d) { for (int i = 0; i < 16; i++) u[i] = 16 * i + i; return 0; }
int cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:3B:00.0"); return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = (size_t)24564 << 20; return 0; }
int cuDeviceGetAttribute(int *v, int which, int d) {
	switch (which) {
	case 16: *v = SMS; return 0;
	case 13: *v = 2520000; return 0;
	case 36: *v = 10501000; return 0;
	case 37: *v = 384; return 0;
	case 75: *v = 8; return 0;
	case 76: *v = 9; return 0;
	case 18: case 32: *v = 0; return 0;
	}
	return 1;
}

int cuCtxCreate_v2(ptr *c, unsigned flags, int d) { *c = 0xC0; contexts++; current = 1; return flags || d ? bad("cuCtxCreate") : 0; }
int cuCtxDestroy_v2(ptr c) { if (c != 0xC0) return bad("cuCtxDestroy"); contexts--; current = 0; return 0; }
int cuCtxSynchronize(void) { return current ? 0 : 201; }

int cuModuleLoadDataEx(ptr *m, const char *text, unsigned n, const int *options, void **values) {
	if (!current) return 201;
	if (n != 2 || options[0] != 5 || options[1] != 6) return bad("cuModuleLoadDataEx options");
	if (!strstr(text, ".version 7.0") || !strstr(text, ".entry multiply(")) {
		snprintf(values[0], (size_t)values[1], "line 1: not our text");
		return 218;
	}
	*m = 0xD0;
	modules++;
	return 0;
}
int cuModuleUnload(ptr m) { if (m != 0xD0) return bad("cuModuleUnload"); modules--; return 0; }
int cuModuleGetFunction(ptr *f, ptr m, const char *name) {
	if (m != 0xD0) return bad("cuModuleGetFunction");
	if (!strcmp(name, "multiply")) *f = 1;
	else if (!strcmp(name, "fill")) *f = 2;
	else if (!strcmp(name, "inspect")) *f = 3;
	else return 500;
	return 0;
}

#define MAX 64
static struct { void *at; size_t n; } mem[MAX];

static void *find(ptr p, size_t n) {
	for (int i = 0; i < MAX; i++)
		if (mem[i].at == (void *)p && mem[i].n >= n) return mem[i].at;
	bad("memory that was not allocated, or is too small");
	return 0;
}
int cuMemAlloc_v2(ptr *p, size_t n) {
	if (!current) return 201;
#ifdef SMALL
	if (n > 64 << 10) return 2;
#endif
	if (n > 1 << 30) return 2;
	for (int i = 0; i < MAX; i++)
		if (!mem[i].at) {
			mem[i].n = n;
			mem[i].at = malloc(n);
#ifdef ALIAS
			for (int j = 0; j < i; j++)
				if (mem[j].n == n) mem[i].at = mem[j].at;
#endif
			*p = (ptr)mem[i].at;
			buffers++;
			return 0;
		}
	return 2;
}
int cuMemFree_v2(ptr p) {
	for (int i = 0; i < MAX; i++)
		if (mem[i].at == (void *)p) {
#ifndef ALIAS
			free(mem[i].at);
#endif
			mem[i].at = 0;
			buffers--;
			return 0;
		}
	return bad("cuMemFree");
}
int cuMemGetInfo_v2(size_t *f, size_t *t) { *f = 8 << 20; *t = (size_t)24564 << 20; return 0; }
int cuMemcpyHtoD_v2(ptr to, const void *from, size_t n) { void *p = find(to, n); if (!p) return 1; memcpy(p, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, ptr from, size_t n) { void *p = find(from, n); if (!p) return 1; memcpy(to, p, n); return 0; }

static int multiply(void **a, unsigned gx, unsigned gy, unsigned bx, unsigned by) {
	unsigned n = *(unsigned *)a[3];
	size_t bytes = (size_t)n * n * 4;
	float *x = find(*(ptr *)a[0], bytes), *y = find(*(ptr *)a[1], bytes), *z = find(*(ptr *)a[2], bytes);
	if (!x || !y || !z) return 1;
	if (a[4] || gx != n / 80 || gy != n / 80 || n % 80 || bx != 16 || by != 16) return bad("launch of multiply");
	memset(z, 0, bytes);
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < n; k++)
			for (unsigned j = 0; j < n; j++) z[i * n + j] += x[i * n + k] * y[k * n + j];
#ifdef WRONG
	z[n + 7] += 1.0f / 65536;
#endif
	return 0;
}

static uint32_t word(uint64_t i, uint32_t mode, uint32_t arg) {
	uint32_t lo = i, hi = i >> 32, x = lo ^ hi * 0x9E3779B9u;
	if (mode == 1) return 1u << ((lo + arg) & 31);
	if (mode == 2) {
		x += arg * 0x85EBCA6Bu;
		x ^= x >> 16; x *= 0x7FEB352Du; x ^= x >> 15; x *= 0x846CA68Bu; x ^= x >> 16;
		return x;
	}
	return x ^ arg;
}
static int pattern(void **a, int look) {
	uint32_t n = *(uint32_t *)a[1], mode = *(uint32_t *)a[3], arg = *(uint32_t *)a[4];
	uint64_t base = *(uint64_t *)a[2];
	uint32_t *w = find(*(ptr *)a[0], (size_t)n * 4), *found = look ? find(*(ptr *)a[5], 8) : 0;
	if (!w || look && !found) return 1;
	if (a[look ? 6 : 5]) return bad("launch of a pattern");
	for (uint32_t i = 0; i < n; i++) {
		uint32_t v = word(base + i, mode, arg);
		if (!look) w[i] = v;
		else if (w[i] != v) { found[0]++; if (i < found[1]) found[1] = i; }
	}
#ifdef STUCK
	if (!look && n > 1000) w[1000] &= ~0x20u;
#endif
	return 0;
}

int cuLaunchKernel(ptr f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, ptr stream, void **args, void **extra) {
	if (!current) return 201;
#ifdef HANG
	for (;;) pause();
#endif
#ifdef CRASH
	fprintf(stderr, "the stub driver dies here\n");
	abort();
#endif
#ifdef LAUNCH
	return 719;
#endif
	if (gz != 1 || bz != 1 || shared || stream || extra || !gx || !gy) return bad("launch dimensions");
	switch (f) {
	case 1: return multiply(args, gx, gy, bx, by);
	case 2: return bx == 256 && by == 1 ? pattern(args, 0) : bad("launch of fill");
	case 3: return bx == 256 && by == 1 ? pattern(args, 1) : bad("launch of inspect");
	}
	return 400;
}

static struct timespec at[2];
int cuEventCreate(ptr *e, unsigned flags) { *e = 0xE0 + events++; return flags ? bad("cuEventCreate") : 0; }
int cuEventRecord(ptr e, ptr s) { if (e < 0xE0 || e > 0xE1) return bad("cuEventRecord"); clock_gettime(CLOCK_MONOTONIC, &at[e - 0xE0]); return 0; }
int cuEventSynchronize(ptr e) { return e == 0xE1 ? 0 : bad("cuEventSynchronize"); }
int cuEventElapsedTime(float *ms, ptr a, ptr b) {
	if (a != 0xE0 || b != 0xE1) return bad("cuEventElapsedTime");
#ifdef CLOCK
	*ms = 0;
	return 0;
#endif
	*ms = (at[1].tv_sec - at[0].tv_sec) * 1e3f + (at[1].tv_nsec - at[0].tv_nsec) * 1e-6f;
	return 0;
}
#ifndef MISSING
int cuEventDestroy_v2(ptr e) { events--; return 0; }
#endif
