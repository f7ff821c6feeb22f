# shellcheck shell=bash disable=SC2034 # what the sourcing script uses
# Sourced by ./demo and ./check: installs what a build needs and this machine lacks (Debian 12 packages; root or sudo).

# What is looked for: a command, a library as pkg-config knows it, or an option of clang; and the package that brings it.
kvl_needs_build='cc:gcc c++:g++ cc:libc6-dev pkg-config:pkg-config meson:meson ninja:ninja-build gnuplot:gnuplot-nox
  lib/libcjson:libcjson-dev lib/sqlite3:libsqlite3-dev lib/libzstd:libzstd-dev lib/libxxhash:libxxhash-dev lib/check:check'
kvl_needs_full='clang:clang clang/-fsanitize=fuzzer:libclang-rt-14-dev valgrind:valgrind valgrind:libc6-dbg
  slurmctld:slurm-wlm slurmd:slurm-wlm munged:munge'

kvl_clang_links()
{
  echo 'int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return data == 0 && size; }' |
    clang "$1" -x c - -o /dev/null 2>/dev/null
}

# kvl_missing NEEDS: the packages for what is not there, in one line.
kvl_missing()
{
  for need in $1; do
    what=${need%%:*}
    case $what in
    clang/*) kvl_clang_links "${what#clang/}" || printf ' %s' "${need#*:}" ;;
    lib/*) pkg-config --exists "${what#lib/}" 2>/dev/null || printf ' %s' "${need#*:}" ;;
    *) command -v "$what" >/dev/null 2>&1 || printf ' %s' "${need#*:}" ;;
    esac
  done
}

# kvl_install NEEDS: 0 when everything is there in the end.
kvl_install()
{
  missing=$(kvl_missing "$1")
  [ -n "$missing" ] || return 0
  echo "installing:$missing" >&2
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    as_root=sudo
    command -v sudo >/dev/null 2>&1 || { echo "this needs root, or sudo; the packages are:$missing" >&2; return 1; }
  fi
  command -v apt-get >/dev/null 2>&1 || { echo "there is no apt-get here; the packages' Debian names are:$missing" >&2; return 1; }
  # shellcheck disable=SC2086 # a list of words, on purpose
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 </dev/null &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >&2 </dev/null || return 1
  missing=$(kvl_missing "$1")
  [ -z "$missing" ] || { echo "still missing after the installation:$missing" >&2; return 1; }
}
