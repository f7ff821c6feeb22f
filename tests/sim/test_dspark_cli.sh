#!/bin/sh
# kvloan dspark-table, what speculation does to a run's label, and what scenario check says about it. Prints TAP.
#
#   test_dspark_cli.sh KVLOAN
. "$(dirname "$0")/../base/tap.sh"
program=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
check() { # NAME, with the outcome of the last command
  pass_or_fail $? "$1"
}

small="--set=speculation=deepseek-v4.1-flash.dspark --set=workload.input_tokens=20000 --set=workload.cached_tokens=19000 --set=workload.requests=24
  --set=workload.concurrency=12 --set=workload.output_tokens=60 --set=workload.open_interval_ms=1 --set=node.kv_pool_bytes=2100000000"

# 1: resident steps take what the profile says, so the table is the profile's law, to the nanosecond.
"$program" dspark-table published-256 $small --set=mode=resident --set=selection.source=none --out="$work/resident.json" 2>"$work/err"
grep -o '"cost_table":{"value":[^}]*' "$work/resident.json" | grep -o '\[[0-9]*,[0-9.]*\]' | tr -d '[]' >"$work/points"
awk -F, '{ want = 13.26 + 0.1903 * $1; if ($2 - want > 1e-6 || want - $2 > 1e-6) bad = 1 } END { exit NR < 8 || bad }' "$work/points"
check "the table of resident mode is the profile's law"

# 2: scheduled by it, a run is what it is when the scheduler knows the profile.
stored() { # FILE SPECULATION
  "$program" run published-256 $small --set=mode=resident --set=speculation="$2" --store="$work/runs.db" --format=json 2>/dev/null |
    grep -vE '"(name|wall_s|selections_per_wall_s|peak_memory_bytes)":' >"$work/$1"
}
stored known deepseek-v4.1-flash.dspark && stored tuned "$work/resident.json" && grep -q '"drafts_verified": [1-9]' "$work/known" && cmp -s "$work/known" "$work/tuned"
check "a run with the right table equals one that knows"

# 3: each table is a row of its own.
"$program" results list --store="$work/runs.db" --format=tsv >"$work/list" 2>/dev/null
grep -q 'resident+dspark	' "$work/list" && grep -q 'resident+dspark-tuned-resident	' "$work/list"
check "runs carry the name of their speculation"

# 4: adaptive mode, selections resolved: dearer steps, the table ascends, its origin says how it was made.
"$program" dspark-table published-256 $small --batch-max=6 --name=mine >"$work/adaptive.json" 2>/dev/null
grep -o '"cost_table":{"value":[^}]*' "$work/adaptive.json" | grep -o '\[[0-9]*,[0-9.]*\]' | tr -d '[]' |
  awk -F, '$2 < last || $2 < 13.26 + 0.1903 * $1 { bad = 1 } { last = $2 } END { exit NR < 8 || bad }' &&
  grep -q '"name":{"value":"mine"' "$work/adaptive.json" && grep -q 'adaptive mode, batches of 1 to 6' "$work/adaptive.json"
check "the table of adaptive mode has what the mode adds"

# Short answers: the largest batch is one of the runs' own answers, which are longer.
for kv in 2500000000 2510000000; do
  "$program" dspark-table published-256 --set=speculation=glm-5.2.mtp --set=mode=fixed --set=node.sessions_per_gpu_max=0 --set=policy.hot_rows=512 --set=policy.bank_rows=2048 \
    --set=policy.tail_tokens=512 --set=workload.input_tokens=20000 --set=workload.cached_tokens=20000 --set=workload.requests=9 --set=workload.concurrency=3 \
    --set=workload.output_tokens=3 --set=selection.source=none --set=node.kv_pool_bytes=$kv --out="$work/short.json" 2>"$work/err" || { bad=1; sed 's/^/# /' "$work/err"; }
done
[ -z "$bad" ]
check "a scenario of short answers"

# 5: what cannot be gets one line.
line() { # line NAME RC TEXT ARGUMENTS...
  name=$1 want=$2 text=$3
  shift 3
  "$program" dspark-table "$@" >"$work/out" 2>"$work/err"
  [ $? -eq "$want" ] && [ "$(wc -l <"$work/err")" -eq 1 ] && grep -q -- "$text" "$work/err" && [ ! -s "$work/out" ]
  check "$name"
}
line "without speculation" 1 "there is nothing to schedule" published-256
line "requests of many sizes" 1 "requests of one size" mooncake-sample --set=speculation.method=dspark
line "a batch that does not fit" 1 "nearest: " published-256 $small --batch-max=500
line "a batch with a sign" 2 "--batch-max=+3: not a number from 1 to 512" published-256 --batch-max=+3
line "no scenario" 2 "which scenario" --name=x
line "an unknown option" 2 "did you mean --out" published-256 --ot=x
line "a folder that is not there" 1 "No such file" published-256 $small --batch-max=1 --set=selection.source=none --out="$work/none/x.json"
line "which is found out before the runs" 1 "No such file" published-256 --out="$work/none/x.json"
mkfifo "$work/pipe"
line "a pipe" 1 "not a plain file" published-256 $small --batch-max=1 --set=selection.source=none --out="$work/pipe"
[ -p "$work/pipe" ] && [ ! -e "$work/none" ] && ! ls "$work" | grep -q '\.part'
check "nothing half written"

# 6: scenario check.
"$program" scenario check published-256 --set=speculation=deepseek-v4.1-flash.dspark >"$work/check" 2>/dev/null
grep -q '^  resident .* 30 *46  HBM pool' "$work/check" && grep -q 'speculation takes 1.80 GB' "$work/check" && grep -q 'draft state' "$work/check"
check "scenario check: capacity with and without speculation"
"$program" scenario check published-256 --set=speculation.method=dspark --set=speculation.accepted_mean=6.5 >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && grep -q 'speculation.accepted_mean: must be from 1 to 6' "$work/err"
check "a mean that no draft can give"
"$program" scenario check published-256 --set=speculation.method=dspark --set=policy.tail_tokens=66 >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && grep -q 'policy.tail_tokens: is 66.*nearest: 70' "$work/err"
check "a tail that does not hold a step"
"$program" scenario check published-256 --set=speculation.method=dspark --set=speculation.weights_bytes=30e9 >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && grep -q 'speculation alone takes' "$work/err"
check "drafts that leave no room for sessions"

finish
