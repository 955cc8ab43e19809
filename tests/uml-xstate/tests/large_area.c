/*
 * ptrace(2) as on a host kernel with AMX, on a machine without AMX: preloaded behind the library under test.
 *
 * For NT_X86_XSTATE it behaves like arch/x86/kernel/fpu since Linux 5.16 on such a CPU:
 *  - xstateregs_set: a shorter area is EFAULT (ptrace_regset truncates a longer one);
 *  - validate_user_xstate_header: tile data without permission is EINVAL;
 *  - __copy_xstate_to_uabi_buf: as many bytes as requested, zeros for components in their initial configuration.
 * This machine's kernel does the rest with its own, shorter area. Tile configuration is reported as in use, which a CPU may
 * do at any time; this machine's kernel returns EINVAL if it is written back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#define NT_X86_XSTATE 0x202
#define XSTATE_BV 512
#define TILE_CONFIGURATION ((uint64_t)1 << 17)
#define TILE_DATA ((uint64_t)1 << 18)
#define WHOLE ((size_t)11008)

typedef long (*ptrace_function)(enum __ptrace_request, ...);

static long refuse(int why)
{
	errno = why;
	return -1;
}

static long set(ptrace_function next, pid_t pid, struct iovec *area)
{
	size_t length = area->iov_len < WHOLE ? area->iov_len : WHOLE;
	uint64_t components;
	long answer;

	if (length != WHOLE)
		return refuse(EFAULT);
	memcpy(&components, (char *)area->iov_base + XSTATE_BV, sizeof(components));
	if (components & TILE_DATA)
		return refuse(EINVAL);
	answer = next(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, area);
	area->iov_len = length;
	return answer;
}

static long get(ptrace_function next, pid_t pid, struct iovec *area)
{
	size_t length = area->iov_len < WHOLE ? area->iov_len : WHOLE;
	long answer = next(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, area);
	uint64_t components;

	if (answer < 0)
		return answer;
	memset((char *)area->iov_base + area->iov_len, 0, length - area->iov_len);
	area->iov_len = length;
	if (length >= XSTATE_BV + sizeof(components)) {
		memcpy(&components, (char *)area->iov_base + XSTATE_BV, sizeof(components));
		components |= TILE_CONFIGURATION;
		memcpy((char *)area->iov_base + XSTATE_BV, &components, sizeof(components));
	}
	return answer;
}

long ptrace(enum __ptrace_request request, ...)
{
	ptrace_function next = (ptrace_function)dlsym(RTLD_NEXT, "ptrace");
	va_list arguments;
	pid_t pid;
	void *address, *data;

	va_start(arguments, request);
	pid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	if (address == (void *)NT_X86_XSTATE && data && ((struct iovec *)data)->iov_len % 8 == 0) {
		if (request == PTRACE_SETREGSET)
			return set(next, pid, data);
		if (request == PTRACE_GETREGSET)
			return get(next, pid, data);
	}
	return next(request, pid, address, data);
}
