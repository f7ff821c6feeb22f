#!/bin/sh
# A kernel's source as C++ for the CPU: translate.sh WORDS KERNEL OUTPUT DEPFILE COMPILER... (with its options). See cuda_runtime.h.
set -eu
words=$1 kernel=$2 output=$3 depfile=$4
shift 4
"$@" -include cuda_runtime.h -E -x c++ -MD -MF "$depfile" -MT "$output" "$kernel" -o "$output.ii"
sed -E -f "$words" "$output.ii" >"$output"
rm -f "$output.ii"
