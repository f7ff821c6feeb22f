#!/bin/sh
# Makes the logs of this folder that no GPU made, anew: make.sh MAKE_LOG (B/tests/sim/make_log of the build folder), from the root of the project.
set -eu
make_log=$1 to=tests/sim/recorded
record() { # NAME SEED STEP_US COPY_US LATE_US OPTIONS...
  name=$1 seed=$2 step=$3 copy=$4 late=$5
  shift 5
  "$make_log" scenarios/published-256.json "$to/$name.log" "$seed" "$step" "$copy" "$late" --set=name="recorded-$name" --set=note=small \
    --set=workload.cached_tokens=0 --set=workload.open_interval_ms=40 --set=policy.hot_rows=600 --set=selection.library_sessions=0 \
    --set=node.host_pool_bytes=60000000 "$@"
}
record rise-and-fall 7 4000 9000 50 --set=workload.concurrency=9 --set=workload.requests=20 --set=workload.input_tokens=3001 --set=workload.output_tokens=90 \
  --set=node.decode_gpus=1 --set=node.kv_pool_bytes=30000000 --set=policy.give_back_bytes_max=300000 --set=policy.horizon_ms=100 --set=policy.bank_rows=0 \
  --set=limits.request_timeout_s=2.9
record side-stream 8 3000 20000 200 --set=workload.concurrency=10 --set=workload.requests=24 --set=workload.input_tokens=2500 --set=workload.output_tokens=66 \
  --set=node.decode_gpus=2 --set=node.kv_pool_bytes=20000000 --set=policy.give_back_bytes_max=200000 --set=policy.horizon_ms=200 --set=policy.bank_rows=0 \
  --set=policy.admission_copy=side_stream --set=policy.revoke_order=least_selected --set=selection.preset=cold-a
record drafts-and-pools 9 4000 9000 50 --set=workload.concurrency=6 --set=workload.requests=12 --set=workload.input_tokens=3000 \
  --set=workload.output_tokens=60 --set=node.decode_gpus=1 --set=node.kv_pool_bytes=34000000 --set=policy.give_back_bytes_max=300000 \
  --set=policy.horizon_ms=100 --set=policy.bank_rows=4096 --set=policy.prefetch=pool --set=speculation.method=dspark --set=speculation.drafts=5
