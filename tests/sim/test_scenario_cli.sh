#!/bin/sh
# Exit codes and messages of `kvloan scenario`. Arguments: the program, scenarios/, docs/scenario-keys.md. Prints TAP.
program=$1 scenarios=$2 keys=$3
case $program in /*) ;; *) program=$PWD/$program ;; esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
n=0 failed=0

result() { # ok? name
  n=$((n + 1))
  if [ "$1" = 0 ]; then
    echo "ok $n - $2"
  else
    echo "not ok $n - $2"
    sed 's/^/# /' "$work/err"
    failed=1
  fi
}

# expect CODE TEXT ARGUMENTS...: the exit code; TEXT is in the one line on stderr (nothing on stdout), or, with code 0, on stdout (nothing on stderr).
expect() {
  code=$1 text=$2
  shift 2
  "$program" "$@" >"$work/out" 2>"$work/err"
  got=$?
  bad=0
  [ $got = "$code" ] || { bad=1; echo "exit $got" >>"$work/err"; }
  if [ "$code" = 0 ]; then
    [ -s "$work/err" ] && bad=1
    grep -qF -- "$text" "$work/out" || bad=1
  else
    [ -s "$work/out" ] && bad=1
    grep -qF -- "$text" "$work/err" || bad=1
    [ "$code" = 1 ] && [ "$(wc -l <"$work/err")" != 1 ] && bad=1
  fi
  result $bad "$*"
}

expect 0 'resident         46' check "$scenarios/published-256.json"
expect 0 'resident         46' check published-256
expect 0 '"resident":448450560' check --format=json "$scenarios/published-256.json"
expect 0 'policy.hot_rows	4096	rows	--set	0' check --format=tsv "$scenarios/published-256.json" --set=policy.hot_rows=4096
expect 0 'compute times are an ESTIMATE' check published-256 --set=costs=deepseek-v4.1-flash.roofline
expect 0 'every time is an EXTRAPOLATION' check published-256 --set=hardware=h200
expect 0 'the largest of' check "$scenarios/mooncake-sample.json"
expect 0 'the largest of' check "$scenarios/agent-sample.json"
expect 0 '53940 bytes a token: 51168 of rows may leave HBM, 2772 of index keys stay' check published-256 --set=model=glm-5.2
expect 0 'deepseek-v4.1-flash' list
expect 0 'hardware	h200	' list --format=tsv
expect 0 '"gb300":"' list --format=json
expect 0 'plans	out-of-reach	' list --format=tsv
expect 0 'sweeps	hot-rows	' list --format=tsv
expect 0 '| `policy.hot_rows` | whole number | rows | 0 to 16777216 | `2048` |' keys
expect 0 'usage: kvloan scenario check' --help
expect 0 'usage: kvloan scenario check' check --help

expect 2 'usage: kvloan scenario check'
expect 2 "no command 'chek'; did you mean 'check'?" chek
expect 2 'which scenario?' check
expect 2 'one scenario at a time' check a b
expect 2 'did you mean tsv?' check published-256 --format=xml
expect 2 'takes no --format' json published-256 --format=json
expect 2 'takes no file' keys x
expect 2 'there is no option --sett; did you mean --set?' check --sett=a=b published-256

expect 1 '(nearest: published-256)' check published-265
expect 1 '(nearest: published-256.json)' check "$scenarios/published-265.json"
expect 1 'is a folder' check "$scenarios"
expect 1 '--set=policy.hot_rowz=3: policy.hot_rowz: unknown key (nearest: policy.hot_rows)' check published-256 --set=policy.hot_rowz=3
expect 1 'must be a power of two, is 65 (nearest: 64 or 128)' json published-256 --set=policy.page_tokens=65
expect 1 'cannot hold one session of 500800 tokens in adaptive mode' check published-256 --set=node.kv_pool_bytes=9e7
expect 1 'workload.file: is missing for kind "file"' check mooncake-hour
expect 1 'No such file' check mooncake-hour --set=workload.file=nowhere.jsonl
expect 1 'cannot hold one session of ' check mooncake-sample --set=node.kv_pool_bytes=2e7
expect 1 'nothing.trace' check published-256 --set=selection.source=trace --set=selection.file=nothing.trace
printf '{"name": "x",\n "mode": "adaptive",\n "mode": "fixed"}' >"$work/twice.json"
expect 1 "$work/twice.json:3: mode: given twice (first on line 2)" check "$work/twice.json"
head -c 300 "$scenarios/published-256.json" >"$work/cut.json"
expect 1 "the text ends inside" check "$work/cut.json"

# Stand-ins are marked, and noted once.
"$program" check "$scenarios/h200/all-resident.json" >"$work/out" 2>"$work/err"
[ "$(grep -c '^note: Stand-ins' "$work/err")" = 1 ] && grep -q 'costs.law_fixed_ms.*costs.prefill_fixed_ms' "$work/err" && grep -q '^~ costs.prefill_fixed_ms ' "$work/out"
result $? 'stand-ins are marked and noted'
"$program" check "$scenarios/h200/all-resident.json" --set=costs.law_fixed_ms=13 --set=costs.law_token_ms=0.2 --set=costs.prefill_fixed_ms=150 --set=costs.prefill_token_us=9 >"$work/out" 2>"$work/err" &&
  [ ! -s "$work/err" ] && ! grep -q '^~ costs.prefill_fixed_ms ' "$work/out"
result $? 'one own number each: nothing to note'

# A key of a kind that is not there.
unread() { # KEY KIND-KEY=KIND SCENARIO SETS...
  key=$1 kind=$2
  shift 2
  expect 1 "$key: is not read, because ${kind%%=*} is \"${kind#*=}\"" check "$@"
}
for key in workload.file=nosuch.jsonl workload.format=agent workload.time_scale=2 workload.prefix_store_bytes=1e9 workload.open_interval_ms=1 workload.gamma_cv=2 \
  workload.concurrency=3; do
  unread "${key%%=*}" workload.kind=poisson published-256 --set=workload.kind=poisson --set=workload.rate_per_s=1 "--set=$key"
done
for key in workload.rate_per_s=5 workload.input_tokens=9 workload.cached_tokens=9 workload.output_tokens=9 workload.open_interval_ms=1; do
  unread "${key%%=*}" workload.kind=file mooncake-sample "--set=$key"
done
unread workload.rate_per_s workload.kind=closed published-256 --set=workload.rate_per_s=5
"$program" check published-256 "--set=workload.rate_per_s=
5" >"$work/out" 2>"$work/err"
[ $? = 1 ] && [ "$(wc -l <"$work/err")" = 1 ]
result $? 'a line break in what was typed stays out of the message'
unread selection.file selection.source=preset published-256 --set=selection.source=preset --set=selection.file=nosuch.kvt
unread selection.preset selection.source=none published-256 --set=selection.source=none --set=selection.preset=hot-b
unread speculation.drafts speculation.method=none published-256 --set=speculation.drafts=3
unread costs.step_ms_by_tokens costs.compute=law published-256 '--set=costs.step_ms_by_tokens=[[1,2]]'
expect 1 '(nearest: add --set=workload.kind=poisson or --set=workload.kind=gamma)' check published-256 --set=workload.rate_per_s=5
sed 's/"kind": "closed"/"rate_per_s": 5, "file": "nosuch.jsonl", "kind": "closed"/' "$scenarios/published-256.json" >"$work/both.json"
expect 0 'resident         46' check "$work/both.json" # a file may have the keys of several kinds
expect 0 'Every value' check published-256 --set=workload.kind=gamma --set=workload.rate_per_s=5 --set=workload.gamma_cv=2

expect 1 'must be a whole number, is the string "100GB" (nearest: 100e9)' check published-256 --set=node.kv_pool_bytes=100GB
expect 1 'must be a number, is the string "3 requests/s" (nearest: 3)' check published-256 --set=workload.kind=poisson '--set=workload.rate_per_s=3 requests/s'
other() { # FOLDER KIND USE: each file of the folder is said to be one of this kind, not a scenario
  for file in "$scenarios/$1"/*.json; do
    expect 1 ": this is a $2, not a scenario (nearest: $3$file)" check "$file"
  done
  expect 1 "$(basename "$file" .json): this is a $2, not a scenario (nearest: $3$(basename "$file" .json))" check "$(basename "$file" .json)"
}
other sweeps sweep 'kvloan sweep '
other models 'model descriptor' --set=model=
other hardware 'hardware descriptor' --set=node.hardware=
other costs 'cost profile' --set=costs=
other speculation 'speculation descriptor' --set=speculation=
for file in "$scenarios"/plans/*.json; do
  expect 1 ": this is a plan, not a scenario (nearest: kvloan plan $file)" check "$file"
done
expect 1 'out-of-reach: this is a plan, not a scenario (nearest: kvloan plan out-of-reach)' check out-of-reach
expect 1 'this is a scenario, not a hardware descriptor (nearest: kvloan run ' check published-256 "--set=node.hardware=$scenarios/agent-sample.json"
expect 1 'this is a hardware descriptor, not a cost profile (nearest: --set=node.hardware=' check published-256 "--set=costs=$scenarios/hardware/h200.json"
sed 's/"mode"/"target"/' "$scenarios/published-256.json" >"$work/slip.json" # one member of another kind makes no other kind of it
expect 1 'slip.json:5: target: unknown key' check "$work/slip.json"

# A stored scenario is the same scenario, from any folder.
"$program" json "$scenarios/mooncake-sample.json" --set=seed=7 >"$work/one.json" 2>"$work/err" &&
  (cd "$work" && "$program" json one.json >two.json 2>err) && cmp -s "$work/one.json" "$work/two.json"
result $? 'json of json is the same'
expect 0 'the largest of' check "$work/one.json"

# What docs/scenarios.md shows works.
guide=$(dirname "$keys")/scenarios.md
awk '/^```json/ {block++; next} /^```/ {inside = 0} block == 1 && !done {print} /^}/ {done = block == 1 || done}' "$guide" >"$work/guide.json"
expect 0 'glm-5.2.roofline: ESTIMATE' check "$work/guide.json"
sed -n 's/^    kvloan scenario //p' "$guide" >"$work/commands"
while read -r line; do
  # shellcheck disable=SC2086
  expect 0 'Every value and its origin' $line
done <"$work/commands"

"$program" keys >"$work/keys.md" 2>"$work/err"
cmp -s "$work/keys.md" "$keys"
result $? 'docs/scenario-keys.md is up to date (kvloan scenario keys >docs/scenario-keys.md)'

if [ -w /dev/full ]; then
  "$program" check "$scenarios/published-256.json" >/dev/full 2>"$work/err"
  [ $? = 1 ]
  result $? 'a full disk is an error'
fi
echo "1..$n"
exit $failed
