# What the suites tests/image and tests/release share: buildah, and reporting that it cannot run. They source this file.
# shellcheck shell=bash

# Reports a whole suite as not run, and ends it.
skipped() { # NAME REASON COMMAND
  if [ "${PARALLAX_STRICT:-}" = 1 ]; then
    printf 'PARALLAX_STRICT=1 and %s can be neither built nor run: %s\n' "$1" "$2" >&2
    exit 1
  fi
  local line
  line=$(printf '%s\t%s\t%s' "$1" "$(tr '\t\n' '  ' <<<"$2" | cut -c1-300)" "$3")
  if [ -n "${PARALLAX_SKIPPED:-}" ]; then printf '%s\n' "$line" >>"$PARALLAX_SKIPPED"; else printf 'SKIPPED: %s\n' "$line" >&2; fi
  exit 0
}
# Continues only where buildah works; as an ordinary user in a user namespace, in which the script starts again.
with_buildah() { # NAME SCRIPT [ARGUMENT…]
  local name=$1 script=$2 why
  shift 2
  tests/install-tools image || skipped "$name" 'buildah is missing' "$script"
  tests/install-tools sbom || skipped "$name" 'cargo-cyclonedx cannot be installed' "$script"
  # The simplest storage driver: needs neither a kernel module nor a permission.
  export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs} BUILDAH_ISOLATION=chroot
  why=$(buildah info 2>&1 >/dev/null) || skipped "$name" "buildah cannot work here: $(tail -n 1 <<<"$why")" "$script"
  if [ "$(id -u)" -ne 0 ] && [ -z "${PARALLAX_UNSHARED:-}" ]; then
    buildah unshare true 2>/dev/null || skipped "$name" 'this user has no subordinate ids (/etc/subuid); run it as root' "$script"
    PARALLAX_UNSHARED=yes exec buildah unshare "$script" "$@"
  fi
}
