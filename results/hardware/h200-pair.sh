#!/bin/sh
# Two decode GPUs of one host that share its memory, against one alone with the same load each, results/hardware/h200-pair.md. Two halves, because GPUs are lent by the minute:
#   h200-pair.sh measure KVLOAN SCENARIOS OUT   on the machine with two GPUs (70 s): OUT/measured.tsv, OUT/checked.txt
#   h200-pair.sh model   KVLOAN SCENARIOS OUT   anywhere: the same runs in the model plane, OUT/modelled.tsv
# A row a run and GPU: steps of exactly 30 requests that nobody joined, from the decision log.
# Either stops at the first run that fails, and leaves nothing in OUT then.
set -u
# shellcheck source=results/hardware/measure.sh disable=SC1091
. "$(dirname "$0")/measure.sh"
usage='h200-pair.sh measure|model KVLOAN SCENARIOS OUT'
case $#:${1-} in 4:measure | 4:model) ;; *) misused "$usage" ;; esac
what=$1 kvloan=$2 scenarios=$3 out=$4
prepare "$kvloan" "$scenarios" "$out"
fixed='--set=mode=fixed --set=policy.hot_rows=1024 --set=selection.preset=cold-a'
half='--set=node.kv_pool_bytes=8900000000 --set=selection.preset=cold-a'
load='--set=node.hardware=h200.measured --set=node.prefill_gpus=4 --set=workload.output_tokens=40'
table=modelled.tsv plane=--plane=model
[ "$what" = measure ] && table=measured.tsv plane='--plane=cuda --check=none'

run() { # NAME GPUS SETTINGS...
  name=$1 gpus=$2
  shift 2
  # shellcheck disable=SC2086
  "$kvloan" run "$scenarios/h200/half-revoked.json" $load --set=node.decode_gpus="$gpus" --set=workload.concurrency=$((30 * gpus)) --set=workload.requests=$((30 * gpus)) --set=limits.batch_max=30 \
    "$@" $plane --quiet --record="$work/log" --format=json >"$work/json" 2>"$work/err" </dev/null || fail "$name: $(tail -n 1 "$work/err")"
  rate=$(sed -n 's/.*"output_throughput_tok_per_s": \([0-9.]*\).*/\1/p' "$work/json")
  step_durations "$name: its log" <"$work/log" >"$work/steps"
  gpu=0
  while [ $gpu -lt "$gpus" ]; do
    awk -v gpu=$gpu '$1 == gpu && $3 == 30 && $4 == 0 { printf "%.0f %.0f %s\n", $11 - $10, $15 + $16, $18 }' "$work/steps" | sort -n | awk -v name="$name" -v gpu=$gpu -v rate="$rate" '
      { d[NR] = $1; step += $1; fetch += $2; rows += $3 }
      END { if (NR) printf "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f\n", name, gpu, NR, step / NR / 1e3, d[int((NR + 1) / 2)] / 1e3, d[int(NR * 0.1) + 1] / 1e3, d[int(NR * 0.9)] / 1e3, fetch / NR / 1e3, rows / NR, rate }' >>"$work/$table"
    gpu=$((gpu + 1))
  done
}

printf 'run\tgpu\tsteps\tmean_us\tp50_us\tp10_us\tp90_us\tfetch_us\trows_fetched\tthroughput\n' >"$work/$table"
rounds='1 2'
[ "$what" = measure ] || rounds=1
for round in $rounds; do # in turn: what differs between two rounds is the noise
  # shellcheck disable=SC2086
  {
    run "fixed, one GPU ($round)" 1 $fixed
    run "fixed, two GPUs ($round)" 2 $fixed
    run "half revoked, one GPU ($round)" 1 $half
    run "half revoked, two GPUs ($round)" 2 $half
  }
done
if [ "$what" = measure ]; then
  # shellcheck disable=SC2086
  "$kvloan" run "$scenarios/h200/half-revoked.json" $load --set=node.decode_gpus=2 --set=workload.concurrency=60 --set=workload.requests=60 --set=limits.batch_max=30 --set=workload.output_tokens=20 $fixed \
    --plane=cuda --check=all --quiet >/dev/null 2>"$work/err" </dev/null || fail "fixed, two GPUs, every row read back: $(tail -n 1 "$work/err")"
  grep 'read back' "$work/err" >"$work/checked.txt" || fail 'fixed, two GPUs: no row was read back'
  mv "$work/checked.txt" "$out"
  cat "$out/checked.txt"
fi
mv "$work/$table" "$out"
cat "$out/$table"
