#!/bin/sh
# Boots user-mode Linux with a first process that reports success and halts; takes a second or two. If it does not boot, prints
# the reason on stderr in one line and exits with 1.
#   uml-trial.sh [DIRECTORY]   directory for scratch files, by default /tmp
# A CPU whose XSAVE area is larger than the buffer in user-mode Linux is not a reason: parallax-lab preloads a library for that.
set -u
PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/bin

cannot() {
  echo "$1" >&2
  exit 1
}

machine=$(uname -m)
[ "$machine" = x86_64 ] || cannot "it exists only for x86-64, and this machine is $machine"
uml=$(command -v linux.uml) || cannot "linux.uml is not installed"
scratch=$(mktemp -d "${1:-/tmp}/uml-trial.XXXXXX") || cannot "cannot create a directory for scratch files"
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log
cat >"$scratch/init" <<'INIT'
#!/bin/sh
mount -t proc proc /proc
echo booted for a trial
echo o > /proc/sysrq-trigger
sleep 60
INIT
chmod +x "$scratch/init"

# Boots with its memory file in the directory $1.
boots() {
  {
    TMPDIR=$1 timeout -k 2 30 "$uml" mem=64M root=/dev/root rootfstype=hostfs rootflags=/ ro quiet \
      init="$scratch/init" uml_dir="$scratch/" con=null con0=null,fd:2 con1=fd:0,fd:1
    status=$?
  } </dev/null >"$log" 2>&1
  grep -q '^booted for a trial' "$log"
}

logged() {
  grep -q "$1" "$log"
}

why=
for memory in ${TMPDIR:+"$TMPDIR"} /dev/shm /tmp "$scratch"; do
  [ -d "$memory" ] && [ -w "$memory" ] || continue
  boots "$memory" && exit 0
  if logged 'must be not mounted noexec'; then
    why="$memory is mounted noexec; set TMPDIR to a directory that is not"
  elif logged 'Bus error - the host'; then
    why="$memory is full; set TMPDIR to a directory with 512 MiB free"
  else
    break
  fi
done

if logged 'ptrace set fp regs failed, errno = 14'; then
  # By the name of the dynamic linker in it.
  grep -q ld-linux-x86-64 "$uml" && exit 0
  why="the CPU's XSAVE area is larger than its buffer, and $uml is linked statically, so nothing can be preloaded; use Debian's package"
elif logged '^ptrace: Operation not permitted'; then
  why='ptrace is not permitted (allow it in a container with --cap-add=SYS_PTRACE, elsewhere with kernel.yama.ptrace_scope=1)'
elif [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
  why='it did not boot within 30 s'
elif [ -z "$why" ]; then
  why="it exited with $status: $(tr -d '\000' <"$log" | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c 1-200)"
fi
cannot "$why"
