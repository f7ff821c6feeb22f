#!/bin/sh
# The CUDA plane on one GPU, all of results/hardware/h200-plane.md: h200-plane.sh KVLOAN SCENARIOS OUT. Needs some 35 GB of pinned memory and 100 GB of HBM.
# h200-plane.sh KVLOAN SCENARIOS OUT model: the same steps forecast, anywhere, with node.hardware=h200.measured; only OUT/steps.tsv.
#   OUT/steps.tsv       steps of exactly N requests, to the nanosecond, from the decision logs of runs that check nothing
#   OUT/floor.tsv       of steps that were gathered once more (`kvloan validate --floor`, nothing checked): the bare gather of their host rows, and what they took over it
#   OUT/validate.jsonl  `kvloan validate` of each scenario, every selected row of every step read back
# It stops at the first run that fails, and leaves nothing of that half in OUT then.
set -u
# shellcheck source=results/hardware/measure.sh disable=SC1091
. "$(dirname "$0")/measure.sh"
usage='h200-plane.sh KVLOAN SCENARIOS OUT [model]'
case $#:${4-model} in 3:model | 4:model) ;; *) misused "$usage" ;; esac
kvloan=$1 scenarios=$2 out=$3 plane=${4:-cuda}
prepare "$kvloan" "$scenarios" "$out"

# Durations of the steps that N requests were in and nobody joined; what they were spent on (microseconds, means), rows fetched.
steps() { # NAME N SCENARIO SETTINGS...
  name=$1 n=$2 scenario=$3
  shift 3
  case $plane in
  model) set -- --set=node.hardware=h200.measured "$@" ;;
  *) set -- "--plane=$plane" --check=none "$@" ;;
  esac
  "$kvloan" run "$scenario" --quiet --record="$work/log" "$@" >/dev/null 2>"$work/err" || fail "$name: $(tail -n 1 "$work/err")"
  step_durations "$name: its log" <"$work/log" >"$work/all"
  awk -v n="$n" '$3 == n && $4 == 0 { printf "%.0f", $11 - $10; for (i = 12; i <= 18; i++) printf "\t%s", $i; print "" }' "$work/all" | sort -n >"$work/steps"
  awk -v name="$name" '{ d[NR] = $1; for (i = 1; i <= NF; i++) sum[i] += $i }
    END { if (NR == 0) { print name "\tno such steps"; exit }
      printf "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f", name, NR, sum[1] / NR / 1e3, d[int((NR + 1) / 2)] / 1e3, d[int(NR * 0.1) + 1] / 1e3, d[int(NR * 0.9)] / 1e3
      for (i = 2; i <= 7; i++) printf "\t%.1f", sum[i] / NR / 1e3; printf "\t%.0f\n", sum[8] / NR }' "$work/steps" >>"$work/steps.tsv"
}
# $beside: what a resident server's look-ups take of a step. Resident mode takes that time off the layers; for comparisons at equal layers it is put back.
look_ups() {
  "$kvloan" validate "$scenarios/h200/all-resident.json" --set=mode=resident --check=none --format=tsv >"$work/v" 2>"$work/err" # it says 1 where nothing is read back
  beside=$(awk -F '\t' '$1 == "device" && $2 == "kernel.resolve.mean" { mean = $4 } $1 == "device" && $2 == "kernel.resolve.launches" { launches = $4 } $1 == "times" && $2 == "compute.count" { count = $4 }
    END { if (count == 0 || launches == 0) exit 1; printf "%.4f", mean * launches / count / 1e3 }' "$work/v") || fail "look-ups of resident mode: $(tail -n 1 "$work/err")"
}
floor() { # NAME SCENARIO SETTINGS...
  name=$1 scenario=$2
  shift 2
  "$kvloan" validate "$scenario" --check=none --floor --format=tsv "$@" >"$work/v" 2>"$work/err"
  grep -q '^floor' "$work/v" || fail "$name: $(tail -n 1 "$work/err")"
  awk -F '\t' -v OFS='\t' -v name="$name" '$1 == "floor" { print name, $2, $3, $4 }' "$work/v" >>"$work/floor.tsv"
}
check() { # NAME SCENARIO SETTINGS...
  name=$1 scenario=$2
  shift 2
  "$kvloan" validate "$scenario" --check=all --format=json "$@" >"$work/v" 2>"$work/err"
  code=$?
  [ -s "$work/v" ] || fail "$name: $(tail -n 1 "$work/err")"
  echo "$name: exit $code, $(tail -n 1 "$work/err")"
  printf '{"scenario":"%s","validation":%s}\n' "$name" "$(tr -d '\n' <"$work/v")" >>"$work/validate.jsonl"
  [ $code -eq 0 ] || differs=1
}

printf 'run\tsteps\tmean_us\tp50_us\tp10_us\tp90_us\tcompute_us\tbookkeeping_us\tresolve_us\tfetch_us\tlink_wait_us\tprefetch_wait_us\trows_fetched\n' >"$work/steps.tsv"
differs=0
[ "$plane" = model ] || look_ups
for round in 1 2 3; do # in turn: what differs between them is the noise
  steps "resident, 44 ($round)" 44 "$scenarios/h200/all-resident.json" --set=mode=resident
  [ "$plane" = model ] || steps "resident, its look-ups beside 22 ms of layers, 44 ($round)" 44 "$scenarios/h200/all-resident.json" --set=mode=resident --set=costs.law_fixed_ms="$(awk -v more="$beside" 'BEGIN { print 13.2 + more }')"
  steps "adaptive, all resident, 44 ($round)" 44 "$scenarios/h200/all-resident.json"
  steps "adaptive, all resident, pools and a bank, 44 ($round)" 44 "$scenarios/h200/all-resident.json" --set=policy.prefetch=pool --set=policy.bank_rows=16384
  steps "adaptive, half revoked, 44 ($round)" 44 "$scenarios/h200/half-revoked.json"
done
steps "half revoked and pools, 44" 44 "$scenarios/h200/pools.json"
steps "half revoked, a look-up for each layer, 44" 44 "$scenarios/h200/half-revoked.json" --set=policy.layer_sharing=off
steps "fixed, 44" 44 "$scenarios/h200/half-revoked.json" --set=mode=fixed
steps "adaptive, published pool, 82" 82 "$scenarios/h200/published-batch.json"
steps "drafts, 44" 44 "$scenarios/h200/drafts.json"
steps "drafts and pools, 44" 44 "$scenarios/h200/drafts-and-pools.json"
mv "$work/steps.tsv" "$out"
[ "$plane" = model ] && { cat "$out/steps.tsv"; exit 0; }
printf 'run\tkey\tunit\tmeasured\n' >"$work/floor.tsv"
for round in 1 2; do
  floor "adaptive, half revoked, 44 ($round)" "$scenarios/h200/half-revoked.json"
done
floor "adaptive, published pool, 82" "$scenarios/h200/published-batch.json"
mv "$work/floor.tsv" "$out"
for name in all-resident half-revoked rise-and-fall pools drafts drafts-and-pools published-batch; do
  check "$name" "$scenarios/h200/$name.json"
done
check glm-plan "$scenarios/h200/glm-plan.json"
mv "$work/validate.jsonl" "$out"
cat "$out/steps.tsv"
exit $differs
