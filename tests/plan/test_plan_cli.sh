#!/bin/sh
# `kvloan plan` from outside: the answer of a small plan to the byte, whatever the number of threads and however often it was killed; a target that cannot
# be met; bad input; the page. test_plan_cli.sh KVLOAN FOLDER-OF-THIS-TEST SCENARIOS PAGE_CHECK [SEED]
# New golden answer: kvloan plan small.json --store=t.db --format=json | grep -v '"hash"' >small.golden
set -u
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") here=$2 scenarios=$3 check=$(absolute "$4") seed=${5-$(date +%s)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export KVLOAN_SCENARIOS="$scenarios"
cp "$here"/*.json "$here"/small.golden "$folder"/ && cd "$folder" || exit 1
echo "# seed $seed"

random=$((seed % 2147483647 + 1))
pause() { # up to $1 hundredths of a second
  random=$((random * 48271 % 2147483647))
  sleep "$((random % $1 / 100)).$(printf %02d $((random % $1 % 100)))"
}

# ---- a small plan ----
run plan small.json --store=one.db --jobs=1 --format=json
cp out want
[ $code -eq 0 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'the recommendation is run [0-9]*, the runner-up run [0-9]* of one.db' err && grep -v '"hash"' out | cmp -s - small.golden
pass_or_fail $? 'a small plan: the stored answer, to the byte'
run plan small.json --store=two.db --jobs=2 --threads=2 --format=json
[ $code -eq 0 ] && cmp -s out want
pass_or_fail $? 'the same answer with two runs at once, two threads each'
before=$("$program" results list --store=one.db --format=tsv | wc -l)
run plan small.json --store=one.db --format=json
[ $code -eq 0 ] && cmp -s out want && [ "$("$program" results list --store=one.db --format=tsv | wc -l)" -eq "$before" ]
pass_or_fail $? 'started again it runs nothing and says the same'
run plan --store=one.db --show --format=json
[ $code -eq 0 ] && cmp -s out want
pass_or_fail $? '--show prints it again from the store'
run plan --store=one.db --show=small --format=tsv
[ $code -eq 0 ] && grep -q "^met	true$" out && awk -F '\t' 'NF != 2 { bad = 1 } END { exit bad }' out
pass_or_fail $? 'TSV: a key and a value a row'

# the recommendation is a run of the store that gives these figures when it is repeated
number=$("$program" plan small.json --store=one.db 2>&1 >/dev/null | sed -n 's/.*recommendation is run \([0-9]*\),.*/\1/p')
"$program" results show --store=one.db "$number" --format=tsv | sed -n 's/^run.command\t\(kvloan\)\(.*\)\t$/\2/p' >command
eval "\"\$program\" $(cat command) --quiet --format=tsv" >again 2>>err
rate=$(awk -F '\t' '$1 == "request_rate_tok_per_s_p10" { print $2 }' again)
[ -n "$rate" ] && grep -q "\"request_rate_tok_per_s_p10\": $rate" want
pass_or_fail $? 'the command of the recommended run gives the figures of the answer'

# ---- killed ----
rounds=0 code=1
while [ $rounds -lt 25 ]; do
  rounds=$((rounds + 1))
  "$program" plan small.json --store=killed.db --jobs=2 --quiet --format=json >got 2>err </dev/null &
  parent=$!
  pause 50
  kill -9 $parent 2>/dev/null
  wait $parent 2>/dev/null && break
done
run plan small.json --store=killed.db --quiet --format=json
[ $code -eq 0 ] && cmp -s out want && ! ls | grep -q tasks- && [ "$("$program" results list --store=killed.db --format=tsv | wc -l)" -eq "$before" ]
pass_or_fail $? "killed with -9 up to $rounds times it goes on: the same answer, no run lost or made twice"
"$program" plan small.json --store=int.db --set=workload.output_tokens=400 >out 2>err </dev/null &
parent=$!
sleep 0.5
kill -TERM $parent
wait $parent
code=$?
[ $code -eq 130 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'the same command goes on' err && [ ! -s out ]
pass_or_fail $? 'TERM ends it with 130 and one line, and no answer'

# ---- what cannot be met ----
run plan beyond.json --store=beyond.db
[ $code -eq 0 ] && grep -q 'The target cannot be met by any of the' out && grep -q 'short by a factor of' out && grep -q MISSED out && grep -q 'best without a single miss' out
pass_or_fail $? 'a target that cannot be met: said plainly, with what is missing'

# ---- options instead of a file ----
run plan --scenario=base.json --target=tpot_p90_ms=40 --set=selection.source=none --set=costs=deepseek-v4.1-flash.h200 --store=standins.db --format=json
[ "$code" -eq 0 ] && grep -q '"Stand-ins, neither measured nor fitted.*costs.prefill_fixed_ms' out
pass_or_fail $? 'an answer that hangs on stand-ins says so'
run plan --scenario=base.json --target=tpot_p90_ms=40 --set=selection.source=none --gpu-hour=2.5 --store=options.db --format=tsv
[ $code -eq 0 ] && grep -q '^asked.target.tpot_p90_ms	40$' out && grep -q '^met	true$' out && grep -q '^asked.nodes.0.gpu_hour	2.5$' out
pass_or_fail $? 'a scenario and a target are enough'
awk 'BEGIN { for (i = 0; i < 12; i++) printf "{\"timestamp\": %d, \"input_length\": %d, \"output_length\": 30, \"hash_ids\": []}\n", i * 200, 4000 + i % 3 * 2000 }' >mine.jsonl
run plan --scenario=base.json --workload=mine.jsonl --target=ttft_p90_s=2 --store=file.db --format=tsv
[ $code -eq 0 ] && grep -q 'the requests of mine.jsonl' out && grep -q '^met	true$' out
pass_or_fail $? 'a workload file'

# ---- nodes compared, by price ----
cat >nodes.json <<'END'
{"name": "nodes", "scenario": "base.json", "target": {"ttft_p90_s": 2},
 "nodes": [{"name": "dear", "gpu_hour": 9}, {"name": "cheap", "gpu_hour": 2, "set": {"hardware.link.copy_gb_per_s": 20}}],
 "search": {"mode": ["fixed"], "policy.hot_rows": [1024], "node.decode_gpus": [1]}, "repeats": 1}
END
run plan nodes.json --store=nodes.db --format=tsv
[ $code -eq 0 ] && grep -q '^recommendation.settings.node	cheap$' out && grep -q '^runner_up.settings.node	dear$' out
pass_or_fail $? 'of two nodes the cheaper'

# ---- --set and what the plan searches ----
run plan small.json --set=node.decode_gpus=2 --store=typed.db --format=tsv
[ $code -eq 0 ] && grep -q '^recommendation.settings.node.decode_gpus	2$' out && grep -q '^asked.searched.node.decode_gpus.0	2$' out && ! grep -q '^asked.searched.node.decode_gpus.1' out
pass_or_fail $? 'what the command line sets is not searched, whatever the plan says'
refuses 1 '--set=hardware.link.copy_gb_per_s=30: node cheap of nodes.json sets that itself' plan nodes.json --set=hardware.link.copy_gb_per_s=30 --store=x.db
refuses 1 '--set=node.hardware=h2000: node.hardware: there is no descriptor "h2000" (nearest: "h200")' plan small.json --set=node.hardware=h2000 --store=x.db

# ---- one session at a time ----
cat >single.json <<'END'
{"name": "single", "scenario": "base.json", "target": {"ttft_p90_s": 2}, "workload": {"kind": "closed", "concurrency": 1, "requests": 1, "input_tokens": 4000, "output_tokens": 8},
 "search": {"mode": ["fixed"], "policy.hot_rows": [1024], "node.decode_gpus": [1]}, "repeats": 1}
END
run plan single.json --store=single.db
[ $code -eq 0 ] && grep -q 'It meets every target' out
pass_or_fail $? 'a workload of one session'

# ---- merged ----
run results merge merged.db one.db typed.db
[ $code -eq 0 ] && grep -q 'with 2 answers of plans' err
pass_or_fail $? 'merge brings the answers together'
run plan --store=merged.db --show=1 --format=json
[ $code -eq 0 ] && cmp -s out want
pass_or_fail $? 'and they are the same'
run results merge merged.db one.db
[ $code -eq 0 ] && ! grep -q 'answer' err
pass_or_fail $? 'merged twice, they are there once'
run plan small.json --store=merged.db
[ $code -eq 0 ] && grep -q -- '--plan=1 makes a page' err
pass_or_fail $? 'a plan that was made before is named by its number'

# ---- the page ----
run report --store=one.db --plan=latest --out=plan.html
[ $code -eq 0 ] && "$check" plan.html 2>>err && grep -q '<h1>Plan: small</h1>' plan.html && ! grep -q '<script' plan.html && grep -q 'To buy' plan.html && grep -q 'The scenario of the recommendation, complete' plan.html
pass_or_fail $? 'report: a page of the plan, its scenario with it'
run report --store=nodes.db --plan=1 --out=nodes.html
[ $code -eq 0 ] && "$check" nodes.html 2>>err && grep -q 'price of a GPU hour' nodes.html && grep -q '>dear<' nodes.html
pass_or_fail $? 'report: nodes with their prices'
run report --store=beyond.db --plan=beyond --out=beyond.html
[ $code -eq 0 ] && "$check" beyond.html 2>>err && grep -q 'What can be reached at all' beyond.html && grep -q 'The closest candidate with one thing changed' beyond.html && ! grep -qi 'the recommendation with one\|the recommendation is' beyond.html
pass_or_fail $? 'report: a page of a plan that cannot be met'
refuses 1 'holds no plan smal (nearest: small)' report --store=one.db --plan=smal
refuses 1 'holds no plans' plan --store=int.db --show

# ---- bad input ----
refuses 2 'where to? --store=FILE' plan small.json
refuses 2 'which plan?' plan --store=x.db
refuses 2 'a plan or --scenario, not both' plan small.json --scenario=base.json --store=x.db
refuses 2 'did you mean' plan small.json --store=x.db --jbos=2
refuses 2 '--jobs=0: not a number from 1 to 1024' plan small.json --store=x.db --jobs=0
refuses 1 'there is no such plan (nearest: published-256)' plan published-265 --store=x.db
refuses 2 '--target=ttft_p90=3: no such target (nearest: ttft_p90_s)' plan small.json --target=ttft_p90=3 --store=x.db
refuses 2 '--target=ttft_p90_s=soon: must be TARGET=NUMBER' plan small.json --target=ttft_p90_s=soon --store=x.db
refuses 1 'policy.hotrows: unknown key (nearest: policy.hot_rows)' plan small.json --set=policy.hotrows=3 --store=x.db
sed 's/"target"/"targets"/' small.json >bad.json
refuses 1 'bad.json:5: targets: not a part of a plan (nearest: target)' plan bad.json --store=x.db
for scenario in "$scenarios"/*.json "$scenarios"/h200/*.json; do
  refuses 1 ": this is a scenario, not a plan (nearest: kvloan run $scenario)" plan "$scenario" --target=ttft_p90_s=2 --store=x.db
done
for sweep in "$scenarios"/sweeps/*.json; do
  refuses 1 ": this is a sweep, not a plan (nearest: kvloan sweep $sweep)" plan "$sweep" --target=ttft_p90_s=2 --store=x.db
done
printf 'kvloan-log 1\n' >some.log
refuses 1 'some.log: this is a decision log, not a plan (nearest: kvloan replay some.log)' plan some.log --target=ttft_p90_s=2 --store=x.db
refuses 1 'some.log: this is a decision log, not a scenario (nearest: kvloan replay some.log)' plan --scenario=./some.log --target=ttft_p90_s=2 --store=x.db
refuses 1 'workload-f: this is a scenario, not a plan (nearest: kvloan run workload-f)' plan workload-f --store=x.db
refuses 1 ': this is a plan, not a scenario (nearest: kvloan plan ./small.json)' plan --scenario=./small.json --target=ttft_p90_s=2 --store=x.db
sed 's/"target"/"mode": "fixed", "target"/' small.json >bad.json
refuses 1 'bad.json:5: mode: not a part of a plan' plan bad.json --store=x.db
sed 's/base.json/bsae.json/' small.json >bad.json
refuses 1 'bad.json:4: scenario' plan bad.json --store=x.db
run plan small.json --set=node.kv_pool_bytes=100000 --store=x.db
[ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'cannot hold one session' err
pass_or_fail $? 'a node that holds no session: one line'
[ ! -e x.db ]
pass_or_fail $? 'and no store is made for any of it'
for plan in "$scenarios"/plans/*.json; do
  run plan "$plan" --store=none/x.db --quiet
  [ $code -eq 1 ] && grep -q 'none/x.db' err # it is read, and only the folder is missing
  pass_or_fail $? "scenarios/plans/$(basename "$plan") is a plan"
done
finish
