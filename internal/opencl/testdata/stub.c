/* A libOpenCL for tests, with the functions that Assay uses and no device that
 * works. Built with -D of one of:
 *   EMPTY        no platform, as a loader without registrations says it
 *   NONE         success, and zero platforms
 *   HANG         the first call never returns
 *   NODEVICE     one platform without a device
 *   BROKEN       one platform whose device list is an error
 *   REFUSE       one GPU that refuses to be opened
 *   TRUNCATED    the library lacks a function
 *   LIAR         one GPU that claims a name of absurd length
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

typedef void *obj;
static int thing;

int clGetPlatformIDs(unsigned n, obj *ids, unsigned *num) {
#ifdef HANG
	for (;;) pause();
#endif
#if defined(EMPTY)
	return -1001;
#elif defined(NONE)
	*num = 0;
	return 0;
#else
	if (n > 0 && ids) ids[0] = &thing;
	if (num) *num = 1;
	return 0;
#endif
}

static int text(const char *s, size_t n, void *to, size_t *size) {
	if (size) *size = strlen(s) + 1;
	if (to) {
		if (n < strlen(s) + 1) return -30;
		strcpy(to, s);
	}
	return 0;
}

int clGetPlatformInfo(obj p, unsigned what, size_t n, void *to, size_t *size) { return text("Stub", n, to, size); }

int clGetDeviceIDs(obj p, uint64_t type, unsigned n, obj *ids, unsigned *num) {
#if defined(NODEVICE)
	return -1;
#elif defined(BROKEN)
	return -6;
#else
	if (ids) ids[0] = &thing;
	if (num) *num = 1;
	return 0;
#endif
}

int clGetDeviceInfo(obj d, unsigned what, size_t n, void *to, size_t *size) {
	switch (what) {
	case 0x1000: /* type: GPU */
		if (n < 8) return -30;
		*(uint64_t *)to = 4;
		if (size) *size = 8;
		return 0;
	case 0x102B:
#ifdef LIAR
		if (size) *size = (size_t)1 << 40;
		return 0;
#endif
		return text("Stub GPU", n, to, size);
	}
	return -30;
}

obj clCreateContext(void *props, unsigned n, obj *ids, void *f, void *u, int *rc) {
	*rc = -2;
	return 0;
}
int clReleaseContext(obj o) { return 0; }
obj clCreateCommandQueue(obj c, obj d, uint64_t p, int *rc) { *rc = -2; return 0; }
int clReleaseCommandQueue(obj o) { return 0; }
obj clCreateBuffer(obj c, uint64_t f, size_t n, void *p, int *rc) { *rc = -4; return 0; }
int clReleaseMemObject(obj o) { return 0; }
obj clCreateProgramWithSource(obj c, unsigned n, const char **s, const size_t *l, int *rc) { *rc = -6; return 0; }
int clReleaseProgram(obj o) { return 0; }
int clBuildProgram(obj p, unsigned n, obj *d, const char *o, void *f, void *u) { return -3; }
int clGetProgramBuildInfo(obj p, obj d, unsigned w, size_t n, void *to, size_t *s) { return -30; }
obj clCreateKernel(obj p, const char *n, int *rc) { *rc = -46; return 0; }
int clReleaseKernel(obj o) { return 0; }
int clSetKernelArg(obj k, unsigned i, size_t n, const void *v) { return -48; }
int clWaitForEvents(unsigned n, obj *e) { return -58; }
int clReleaseEvent(obj o) { return 0; }
int clGetEventProfilingInfo(obj e, unsigned w, size_t n, void *to, size_t *s) { return -7; }
int clEnqueueReadBuffer(obj q, obj b, unsigned w, size_t o, size_t n, void *p, unsigned c, void *l, void *e) { return -36; }
int clEnqueueWriteBuffer(obj q, obj b, unsigned w, size_t o, size_t n, const void *p, unsigned c, void *l, void *e) { return -36; }
int clEnqueueNDRangeKernel(obj q, obj k, unsigned d, void *o, void *g, void *l, unsigned c, void *w, void *e) { return -36; }
#ifndef TRUNCATED
int clFinish(obj q) { return 0; }
#endif
