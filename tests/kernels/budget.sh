#!/bin/sh
# Every kernel is built for sm_80, sm_90 and sm_100, whatever this build is for, and keeps within its budget: registers a thread, bytes spilled.
# budget.sh ROOT NVCC ARGUMENTS... Prints TAP.
. "$(dirname "$0")/../base/tap.sh"
root=$1
shift
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# Registers: what the launch bounds of a kernel leave, or what it was measured with. Spilled: a spill of resolve waits behind host reads; the bank's copies wait
# for the host themselves.
budget() {
  case $1 in
  resolve) echo 128 0 ;;
  segments) echo 96 0 ;;
  bank) echo 80 40 ;;
  digest | fills | gather) echo 64 0 ;;
  *) echo 32 0 ;;
  esac
}
for arch in 80 90 100; do
  for source in "$root"/kernels/*.cu; do
    kernel=$(basename "$source" .cu)
    "$@" "-I$root" -O3 "-arch=sm_$arch" -cubin -Xptxas=-v "$source" -o cubin >out 2>err &&
      awk -v budget="$(budget "$kernel")" 'BEGIN { split(budget, most, " ") }
        { for (i = 2; i <= NF; i++) { if ($i ~ /^registers/ && $(i - 1) > most[1]) over = 1; if ($i == "spill" && $(i - 2) > most[2]) over = 1; if ($i ~ /^registers/) seen = 1 } }
        END { exit over || !seen }' err
    pass_or_fail $? "sm_$arch $kernel: at most $(budget "$kernel" | sed 's/ / registers, /') bytes spilled"
  done
done
finish
