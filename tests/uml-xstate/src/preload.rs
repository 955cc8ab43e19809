//! The `ptrace` that is preloaded into `linux.uml`.
//!
//! This is the only file of the crate with `unsafe`.
#![expect(
    unsafe_code,
    reason = "a C function that takes the place of another one, is given raw pointers and calls the other one"
)]

use std::{
    ffi::{c_long, c_uint, c_void},
    mem,
    ptr::{self, NonNull},
    slice,
    sync::{
        Mutex,
        atomic::{AtomicPtr, Ordering},
    },
};

use libc::{PTRACE_GETREGSET, PTRACE_SETREGSET, iovec, pid_t};

use crate::area::{self, LARGEST, XstateLayout};

/// `elf.h`: the register set of the XSAVE area.
const NT_X86_XSTATE: usize = 0x202;

/// `ptrace` as the C library declares it.
type Ptrace = unsafe extern "C" fn(c_uint, ...) -> c_long;

/// Additional state of requests. Not on the stack: user-mode Linux calls from kernel stacks of 16 KiB.
struct RequestState {
    /// Size of the host's area; 0 until the kernel has returned it.
    host: usize,
    layout: XstateLayout,
    area: [u8; LARGEST],
}

static STATE: Mutex<RequestState> = Mutex::new(RequestState {
    host: 0,
    layout: XstateLayout::LEGACY,
    area: [0; LARGEST],
});

/// Replaces the C library's `ptrace`: `PTRACE_SETREGSET` with an XSAVE area shorter than the host's sets the extended
/// area; all other requests go to the next `ptrace` unchanged.
///
/// C declares it with a variable number of arguments. On x86-64 these are passed like fixed ones; arguments that a
/// caller omits are not read by the next function either.
///
/// # Safety
///
/// As `ptrace(2)`: for `PTRACE_SETREGSET`, `data` is null or points to an `iovec` that describes readable memory.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ptrace(
    request: c_uint,
    pid: pid_t,
    address: *mut c_void,
    data: *mut c_void,
) -> c_long {
    let Some(next) = next() else {
        // SAFETY: the C library's variable for this thread.
        unsafe { *libc::__errno_location() = libc::ENOSYS };
        return -1;
    };
    if request == PTRACE_SETREGSET && address.addr() == NT_X86_XSTATE {
        // SAFETY: by the contract of this function.
        let answer = unsafe { set_extended(next, pid, data.cast()) };
        if let Some(answer) = answer {
            return answer;
        }
    }
    // SAFETY: the caller's arguments, for the function that it intended to call.
    unsafe { next(request, pid, address, data) }
}

/// Sets the extended area. Returns `None` to leave the request unchanged: it is not too short, or it is invalid, and
/// the kernel then returns the error.
///
/// # Safety
///
/// `given` is null or points to an `iovec` that describes readable memory.
unsafe fn set_extended(next: Ptrace, pid: pid_t, given: *const iovec) -> Option<c_long> {
    // SAFETY: by the contract of this function.
    let given = unsafe { given.as_ref() }?;
    let base = NonNull::new(given.iov_base.cast::<u8>())?;
    // A process is traced by a single thread, so the lock is free, unless a signal handler interrupted that very
    // thread. Waiting would then deadlock.
    let mut state = STATE.try_lock().ok()?;
    let state = &mut *state;
    if state.host == 0 {
        state.host = host_area(next, pid, &mut state.area)?;
        state.layout = XstateLayout::of_this_cpu();
    }
    if !area::is_too_short(given.iov_len, state.host) {
        return None;
    }
    // SAFETY: by the contract of this function; nothing else writes to it during the call.
    let short = unsafe { slice::from_raw_parts(base.as_ptr(), given.iov_len) };
    let extended = &mut state.area[..state.host];
    area::extend(short, extended, &state.layout);
    let mut described = describe(extended);
    // SAFETY: the iovec describes memory that lives until the end of this function.
    Some(unsafe { next(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &raw mut described) })
}

/// Reads a process's whole area from the kernel and returns its length, which is the same for all processes.
fn host_area(next: Ptrace, pid: pid_t, buffer: &mut [u8]) -> Option<usize> {
    let mut described = describe(buffer);
    // SAFETY: the kernel writes at most as many bytes as described, and stores the length in the iovec.
    let answer = unsafe { next(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &raw mut described) };
    (answer == 0).then_some(described.iov_len)
}

fn describe(area: &mut [u8]) -> iovec {
    iovec {
        iov_base: area.as_mut_ptr().cast(),
        iov_len: area.len(),
    }
}

/// Returns the `ptrace` that would be called without this library: the C library's, or that of a later preloaded
/// library.
fn next() -> Option<Ptrace> {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let mut next = NEXT.load(Ordering::Acquire);
    if next.is_null() {
        // SAFETY: a constant and a NUL-terminated string. The result is the same for every caller.
        next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"ptrace".as_ptr()) };
        NEXT.store(next, Ordering::Release);
    }
    if next.is_null() {
        return None;
    }
    // SAFETY: not null, and of this type by its declaration in <sys/ptrace.h>.
    Some(unsafe { mem::transmute::<*mut c_void, Ptrace>(next) })
}
