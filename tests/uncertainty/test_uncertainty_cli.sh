#!/bin/sh
# kvloan run --repeats and kvloan sensitivity from outside. test_uncertainty_cli.sh KVLOAN FOLDER-OF-THIS-TEST SCENARIOS [--update]
set -u
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") here=$(absolute "$2") scenarios=$(absolute "$3") update=${4-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export KVLOAN_SCENARIOS="$scenarios" TMPDIR="$folder/tmp"
mkdir "$TMPDIR" && cp "$here"/tiny.json "$folder"/ && cd "$folder" || exit 1

plain() { # a run's JSON without what the machine decides
  grep -vE '^  "(wall_s|selections_per_wall_s|peak_memory_bytes)":' out
}
steady() { # the same of repeats
  grep -vE '^ *"?(wall_s|selections_per_wall_s|peak_memory_bytes)("|	)' out
}

run run tiny.json --seed=7 --format=json && plain >one && run run tiny.json --seed=7 --format=json --repeats=1 && plain >two && cmp -s one two
pass_or_fail $? '--repeats=1 is the run as it always was'

# the mean and the deviation are those of the three runs made by hand
ok=0
for seed in 7 8 9; do
  run run tiny.json --seed=$seed --format=tsv || ok=1
  grep '^selections_by_tier.hot' out
done | cut -f2 | awk '{ v[NR] = $1; s += $1 } END { m = s / NR; for (i in v) d += (v[i] - m) ^ 2; printf "%.6f %.6f %.4f\n", m, sqrt(d / (NR - 1)), 4.30265273 * sqrt(d / (NR - 1) / NR) }' >by-hand
run run tiny.json --seed=7 --repeats=3 --format=tsv --store=r.db && [ $ok -eq 0 ] &&
  awk -F '\t' '$1 == "selections_by_tier.hot" { printf "%.6f %.6f %.4f\n", $2, $3, $4 }' out >by-kvloan && cmp -s by-hand by-kvloan && [ "$(grep -c . out)" -gt 60 ]
pass_or_fail $? '--repeats=3: mean, deviation and interval of seeds 7, 8 and 9'
steady >first
"$program" results list --store=r.db --format=tsv >runs && [ "$(awk 'END { print NR }' runs)" -eq 4 ] && "$program" results sweeps --store=r.db >sweeps &&
  grep -q 'tiny, repeats' sweeps
pass_or_fail $? 'the store has three runs, linked'
run run tiny.json --seed=7 --repeats=3 --format=tsv --store=r.db && steady | cmp -s - first && "$program" results list --store=r.db --format=tsv | cmp -s - runs
pass_or_fail $? 'the same again runs nothing and says the same'
run run tiny.json --set=seed=7 --repeats=3 --format=tsv --threads=1 && steady | cmp -s - first
pass_or_fail $? 'the same without a store, on one thread'
run run tiny.json --repeats=2 --confidence=99.9 && grep -q '99.9 %' out && grep -q 'not pooled' out && grep -q 'seeds 1 to 2' out && [ "$(ls -A "$TMPDIR" | wc -l)" -eq 0 ]
pass_or_fail $? 'the table says what its interval is; nothing is left behind'
refuses 2 'at least 2 runs' run tiny.json --confidence=90
refuses 2 'at least 2 runs' run tiny.json --repeats=1 --confidence=90
refuses 2 'not a number from 1 to 1000' run tiny.json --repeats=0
refuses 2 'not a number from 1 to 1000' run tiny.json --repeats=3x
refuses 2 'nearest: --confidence=95' run tiny.json --repeats=2 --confidence=100
refuses 2 '--record' run tiny.json --repeats=2 --record=x.log
refuses 2 'cuda' run tiny.json --repeats=2 --plane=cuda
refuses 1 'seed' run tiny.json --repeats=2 --seed=18446744073709551615
refuses 1 'failed' run tiny.json --repeats=2 --set=workload.kind=file --set=workload.file=/nowhere.csv --quiet
TMPDIR=/nowhere refuses 1 '/nowhere' run tiny.json --repeats=2

keys='--keys=costs,hardware.link.rows_per_s_by_pool_bytes,selection.preset,policy.hot_rows=512:2048'
run sensitivity tiny.json "$keys" --repeats=2 --format=tsv
[ "$update" = --update ] && cp out "$here/golden/tiny.tsv"
[ $code -eq 0 ] && cmp -s out "$here/golden/tiny.tsv"
pass_or_fail $? 'a tiny study is what it was'
cp out one
run sensitivity tiny.json "$keys" --repeats=2 --format=tsv --threads=1 --store=s.db && cmp -s out one && [ ! -s err ]
pass_or_fail $? 'one thread, and a store: the same bytes'
run sensitivity tiny.json "$keys" --repeats=2 --format=tsv --store=s.db && cmp -s out one
pass_or_fail $? 'again from the store: the same'
awk -F '\t' 'NR > 2 && $1 < last { exit 1 } NR > 2 { last = $1 } $2 == "costs.law_fixed_ms" && $1 != 1 { exit 1 }' one
pass_or_fail $? 'ranks rise, and the fixed time of a step is first'
run sensitivity tiny.json --keys=costs.law_fixed_ms,costs.transfer_gb_per_s --repeats=2 && grep -q '^   1  costs.law_fixed_ms' out && grep -q 'inside the noise\|+- 0.00' out
pass_or_fail $? 'the table'
run sensitivity tiny.json --keys=costs.law_fixed_ms --repeats=1 --format=json && grep -q '"output_throughput_tok_per_s.half": null' out
pass_or_fail $? 'one run each: no noise is claimed'
run sensitivity tiny.json --list --format=tsv && grep -q 'calibrated on row P07' out && [ "$(awk 'END { print NR }' out)" -gt 20 ]
pass_or_fail $? '--list names values and origins'
run sensitivity tiny.json --keys=node.kv_pool_bytes=1000000:60000000,policy.hot_rows=2048 --repeats=1
[ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q kv_pool_bytes err
pass_or_fail $? 'a value that no scenario can have is refused before anything runs'
run sensitivity tiny.json --list --format=tsv --set=costs=deepseek-v4.1-flash.h200 && grep -q '^costs.prefill_fixed_ms	ms	stand-in	' out && ! grep -q compute_hbm_bytes out
pass_or_fail $? 'stand-ins are varied, but not what the CUDA plane alone reads'
run sensitivity "$scenarios/h200/headline.json" --list --format=tsv
missing=
for key in costs.law_fixed_ms costs.law_token_ms costs.prefill_fixed_ms node.kv_pool_bytes node.sessions_per_gpu_max; do
  grep -q "^$key	" out || missing="$missing $key"
done
[ $code -eq 0 ] && [ -z "$missing" ]
pass_or_fail $? "what the published experiment hangs on, on H200 as well:$missing"
refuses 1 'workload.rate_per_s: is not read' sensitivity tiny.json --set=workload.rate_per_s=3 --list
refuses 2 'at least 2 runs' sensitivity tiny.json --repeats=1 --confidence=90
refuses 2 'nearest: --change=10%' sensitivity tiny.json --change=0
refuses 2 'did you mean --repeats' sensitivity tiny.json --repeatz=2
refuses 2 'which scenario' sensitivity
refuses 1 'did you mean policy.hot_rows' sensitivity tiny.json --keys=policy.hot_row
refuses 1 'nothing there' sensitivity tiny.json --keys=limits
refuses 1 'tin.json' sensitivity tin.json

# ended at any moment: 130, nothing on stdout, nothing left behind; with a store the same command goes on
"$program" sensitivity tiny.json "$keys" --repeats=4 --format=tsv --store=k.db >out 2>err &
pid=$!
sleep 0.5
kill -TERM $pid 2>/dev/null
wait $pid
code=$?
if [ $code -eq 130 ]; then
  [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'goes on' err
else
  [ $code -eq 0 ]
fi
pass_or_fail $? "ended early: $code"
run sensitivity tiny.json "$keys" --repeats=4 --format=tsv --store=k.db && cp out one && run sensitivity tiny.json "$keys" --repeats=4 --format=tsv && cmp -s out one
pass_or_fail $? 'what was ended goes on to the same result'
[ "$(ls -A "$TMPDIR" | wc -l)" -eq 0 ]
pass_or_fail $? 'no temporary store is left'

finish
