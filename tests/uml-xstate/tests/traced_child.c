/*
 * Sets the floating-point state of a traced child as user-mode Linux does, and prints the result: without and with the
 * library preloaded.
 *
 *   traced_child area LENGTH...   sets an area of each length, in which xmm0 holds a pattern
 *   traced_child peek             reads a register that holds -1
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define NT_X86_XSTATE 0x202
#define XMM0 160
#define XSTATE_BV 512
#define X87_AND_SSE 0x3

static const unsigned char PATTERN[16] = "sixteen letters!";
static unsigned char area[64 * 1024] __attribute__((aligned(64)));

static void die(const char *what)
{
	perror(what);
	exit(9);
}

/* Stops itself, then exits with 0 if xmm0 contains the pattern. */
static void child(void)
{
	unsigned char seen[16];
	long number = SYS_kill, pid = getpid();

	if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
		die("PTRACE_TRACEME");
	__asm__ volatile("syscall\n\tmovdqu %%xmm0, %[seen]"
			 : "+a"(number), [seen] "=m"(seen)
			 : "D"(pid), "S"((long)SIGSTOP)
			 : "rcx", "r11", "memory");
	_exit(memcmp(seen, PATTERN, sizeof(seen)) ? 1 : 0);
}

static pid_t start(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0)
		child();
	if (waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status))
		die("waiting for the child to stop");
	return pid;
}

/* Returns the child's report of the contents of xmm0. */
static const char *finish(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_CONT, pid, 0, 0) < 0)
		die("PTRACE_CONT");
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		die("waiting for the child to end");
	return WEXITSTATUS(status) ? "xmm0 as it was" : "xmm0 as set";
}

static void get(pid_t pid)
{
	struct iovec whole = {area, sizeof(area)};

	if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &whole) < 0)
		die("PTRACE_GETREGSET");
}

static uint64_t components(void)
{
	uint64_t bits;

	memcpy(&bits, area + XSTATE_BV, sizeof(bits));
	return bits;
}

/* Sets an area of this length with all components that the child has, and x87 and SSE, which every area contains. */
static void set(size_t length)
{
	pid_t pid = start();
	struct iovec given = {area, length};
	uint64_t bits;
	int failed;

	get(pid);
	memcpy(area + XMM0, PATTERN, sizeof(PATTERN));
	bits = components() | X87_AND_SSE;
	memcpy(area + XSTATE_BV, &bits, sizeof(bits));
	errno = 0;
	failed = ptrace(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &given) < 0;
	printf("%zu: ", length);
	if (failed) {
		printf("errno %d, ", errno);
	} else {
		get(pid);
		printf("length %zu, components %#llx, ", given.iov_len, (unsigned long long)components());
	}
	printf("%s\n", finish(pid));
}

static void peek(void)
{
	pid_t pid = start();
	long word;

	if (ptrace(PTRACE_POKEUSER, pid, (void *)offsetof(struct user_regs_struct, r15), (void *)-1L) < 0)
		die("PTRACE_POKEUSER");
	errno = EDOM;
		/* Omits the last argument, as C allows for this request. */
	word = ptrace(PTRACE_PEEKUSER, pid, (void *)offsetof(struct user_regs_struct, r15));
	printf("%ld, errno %d\n", word, errno);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	int i;

	if (argc == 2 && !strcmp(argv[1], "peek"))
		peek();
	else if (argc > 2 && !strcmp(argv[1], "area"))
		for (i = 2; i < argc; i++)
			set(strtoul(argv[i], NULL, 10));
	else
		return 2;
	return 0;
}
