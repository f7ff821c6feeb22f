#!/bin/sh
# Builds check_kernels (and, where cJSON's header and library are found, check_vectors) with nvcc and cc alone, for a GPU machine without Meson or Check.
# usage: tests/kernels/build_device.sh OUTDIR [ARCH] ; run from the project's root. CJSON=DIR names a folder with cJSON.h in cjson/ and libcjson.
set -e
out=${1:?usage: build_device.sh OUTDIR [ARCH]}
arch=${2:-90}
mkdir -p "$out"
top=$(nvcc --dryrun -x cu /dev/null -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p' | tr -d ' ')
inc="-I. -I$top/include"
[ -d "$top/targets/x86_64-linux/include" ] && inc="$inc -I$top/targets/x86_64-linux/include"
pids=
# What is built is what Meson builds: its lists are read, not copied.
kernels=$(sed -n 's/^ *foreach kernel : \[\(.*\)\]$/\1/p' kernels/meson.build | tr -d "',")
ref="$(grep -o "'[a-z_]*_ref\.c'" kernels/meson.build | tr -d "'" | sed 's|^|kernels/|') backend/base/rng.c"
for f in $(for k in $kernels; do echo "kernels/$k"; done) tests/kernels/floor; do
  nvcc -std=c++17 -I. -O3 -lineinfo -Xcompiler=-fPIC,-fno-exceptions,-fno-rtti -gencode=arch=compute_"$arch",code=sm_"$arch" \
    -c "$f.cu" -o "$out/$(basename "$f").cu.o" &
  pids="$pids $!"
done
cflags="-std=c17 -O3 -g -D_POSIX_C_SOURCE=200809L -Wall -Wextra"
objects=
for f in $ref tests/kernels/gpu.c tests/kernels/batches.c tests/kernels/check_segments.c tests/kernels/check_kernels.c tests/kernels/check_step.c tests/kernels/check_bench.c \
  tests/kernels/bench_step.c tests/kernels/vectors_gpu.c; do
  # shellcheck disable=SC2086
  cc $cflags $inc -c "$f" -o "$out/$(basename "$f").o"
done
for p in $pids; do
  wait "$p"
done
common=
for f in $ref; do
  common="$common $out/$(basename "$f").o"
done
objects="$common $out/gpu.c.o"
for k in $kernels; do
  objects="$objects $out/$k.cu.o"
done
libs="-L$top/lib64 -L$top/lib -L$top/targets/x86_64-linux/lib -lcudart_static -lstdc++ -lpthread -ldl -lrt -lm"
# shellcheck disable=SC2086
cc -o "$out/check_kernels" "$out/check_kernels.c.o" "$out/batches.c.o" "$out/check_segments.c.o" "$out/check_step.c.o" "$out/check_bench.c.o" "$out/bench_step.c.o" $objects "$out/floor.cu.o" $libs
if [ -n "$CJSON" ]; then
  # shellcheck disable=SC2086
  cc $cflags $inc -I"$CJSON" tests/kernels/check_vectors.c -o "$out/check_vectors" "$out/vectors_gpu.c.o" $objects -L"$CJSON" -lcjson $libs
fi
