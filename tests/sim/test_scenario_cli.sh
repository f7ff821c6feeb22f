#!/bin/sh
# Exit codes and messages of `kvloan scenario`. Arguments: the program, scenarios/, docs/scenario-keys.md. Prints TAP.
set -u
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") scenarios=$(absolute "$2") keys=$(absolute "$3")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

says() { # TEXT ARGUMENTS...: exit code 0, TEXT on stdout, nothing on stderr
  text=$1
  shift
  run "$@"
  [ "$code" -eq 0 ] && [ ! -s err ] && grep -qF -- "$text" out
  pass_or_fail $? "$*"
}

says 'resident         46' check "$scenarios/published-256.json"
says 'resident         46' check published-256
says '"resident":448450560' check --format=json "$scenarios/published-256.json"
says 'policy.hot_rows	4096	rows	--set	0' check --format=tsv "$scenarios/published-256.json" --set=policy.hot_rows=4096
says 'compute times are an ESTIMATE' check published-256 --set=costs=deepseek-v4.1-flash.roofline
says 'every time is an EXTRAPOLATION' check published-256 --set=hardware=h200
says 'the largest of' check "$scenarios/mooncake-sample.json"
says 'the largest of' check "$scenarios/agent-sample.json"
says '53940 bytes a token: 51168 of rows may leave HBM, 2772 of index keys stay' check published-256 --set=model=glm-5.2
says 'deepseek-v4.1-flash' list
says 'hardware	h200	' list --format=tsv
says '"gb300":"' list --format=json
says 'plans	out-of-reach	' list --format=tsv
says 'sweeps	hot-rows	' list --format=tsv
# Scenarios in a folder are listed with it, taken so, and found by what comes after it.
says 'scenarios	h200/half-revoked	' list --format=tsv
says '"h200/all-resident":"' list --format=json
run list --format=tsv
! cut -f 2 out | grep -q '^\(models\|hardware\|costs\|speculation\|sweeps\|plans\|workloads\)/'
pass_or_fail $? 'folders of other files are none of scenarios'
awk -F '\t' '$1 == "scenarios" { print $2 }' out >names
while read -r name; do
  run check "$name"
  grep -q 'there is no such scenario' err && echo "$name" >>untaken
done <names
[ "$(grep -c / names)" -ge 9 ] && [ ! -e untaken ]
pass_or_fail $? 'every scenario that is listed is taken by its name'
refuses 1 'all-resident: there is no such scenario (nearest: h200/all-resident)' check all-resident
refuses 1 'h200/al-resident: there is no such scenario (nearest: h200/all-resident)' check h200/al-resident
refuses 1 'there is no such scenario (nearest: agent-sample)' check agent-sampel
mkdir h200 && echo '{}' >h200/mine.json
refuses 1 'h200/mini: there is no such file (nearest: mine.json)' check h200/mini
# What lies in a folder of scenarios: a folder is one of scenarios whatever it is called; what is neither file nor folder is passed over.
mkdir -p kept/x.json kept/plans/p.json kept/hardware/h.json published-256 && cp "$scenarios/published-256.json" kept/x.json/b.json && cp "$scenarios/published-256.json" kept/a.json
mkfifo kept/pipe.json
ln -s nowhere kept/gone.json
KVLOAN_SCENARIOS=$work/kept
export KVLOAN_SCENARIOS
timeout 20 "$program" list --format=tsv >out 2>err
[ "$(grep '^scenarios' out | cut -f 2 | tr '\n' ' ')" = 'a x.json/b ' ] && ! grep -qE '^(plans.p|hardware.h)	' out && [ ! -s err ]
pass_or_fail $? 'scenario list: folders, pipes and links that end in .json'
says 'resident         46' check x.json/b
refuses 1 'x: there is no such scenario (nearest: a)' check x
refuses 1 'p: there is no such scenario (nearest: a)' check p
refuses 1 'there is no descriptor "h" (nearest: ' check a --set=node.hardware=h
# A name is anybody's: none of them breaks a row, or ends up in a line of its own, and what it says of itself does not either.
odd=$(printf 'kept/zz\there')
mkdir "$odd" && for name in "$(printf 'kept/zz\377')" "$(printf 'kept/zz\nzz')" "$(printf 'kept/zz\302\233')" "$odd/zz" 'kept/quo"te'; do cp kept/a.json "$name.json"; done
printf '%s\n' '{"note": "one\ttwo\nthree"}' >kept/plans/told.json
for format in table tsv json; do
  run list --format=$format
  [ "$code" -eq 0 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF 'note: 4 names of files and folders there: passed over' err && iconv -f UTF-8 -t UTF-8 out >/dev/null && ! grep -q zz out && grep -q 'quo.*te' out
  pass_or_fail $? "scenario list --format=$format: names that are not printable"
done
run list --format=tsv
[ "$(awk -F '\t' 'NF != 3' out | wc -l)" -eq 0 ] && grep -q 'one two three' out
pass_or_fail $? 'scenario list --format=tsv: three columns, whatever is said there'
refuses 1 'there is no such scenario (nearest: a)' check zz # whatever is near, it is one line
# A folder by several names is one, by its own; so is the folder itself, and one of other kinds of files.
ln -s . kept/self && ln -s x.json kept/again && ln -s plans kept/others
run list --format=tsv
[ "$(grep '^scenarios' out | cut -f 2 | tr '\n' ' ')" = 'a quo"te x.json/b ' ]
pass_or_fail $? 'scenario list: a folder that is there by several names'
unset KVLOAN_SCENARIOS
says 'resident         46' check published-256 # a folder here hides no scenario
refuses 1 'h200: is a folder; name a file in it' check h200
rm -r kept published-256
says '| `policy.hot_rows` | whole number | rows | 0 to 16777216 | `2048` |' keys
says 'usage: kvloan scenario check' --help
says 'usage: kvloan scenario check' check --help

lines=20 # a usage
refuses 2 'usage: kvloan scenario check'
lines=1
refuses 2 "no command 'chek'; did you mean 'check'?" chek
refuses 2 'which scenario?' check
refuses 2 'one scenario at a time' check a b
refuses 2 'did you mean tsv?' check published-256 --format=xml
refuses 2 'takes no --format' json published-256 --format=json
refuses 2 'takes no file' keys x
refuses 2 'there is no option --sett; did you mean --set?' check --sett=a=b published-256

refuses 1 '(nearest: published-256)' check published-265
refuses 1 '(nearest: published-256.json)' check "$scenarios/published-265.json"
refuses 1 'is a folder' check "$scenarios"
refuses 1 '--set=policy.hot_rowz=3: policy.hot_rowz: unknown key (nearest: policy.hot_rows)' check published-256 --set=policy.hot_rowz=3
refuses 1 'must be a power of two, is 65 (nearest: 64 or 128)' json published-256 --set=policy.page_tokens=65
refuses 1 'cannot hold one session of 500800 tokens in adaptive mode' check published-256 --set=node.kv_pool_bytes=9e7
refuses 1 'workload.file: is missing for kind "file"' check mooncake-hour
refuses 1 'No such file' check mooncake-hour --set=workload.file=nowhere.jsonl
refuses 1 'cannot hold one session of ' check mooncake-sample --set=node.kv_pool_bytes=2e7
refuses 1 'nothing.trace' check published-256 --set=selection.source=trace --set=selection.file=nothing.trace
printf '{"name": "x",\n "mode": "adaptive",\n "mode": "fixed"}' >twice.json
refuses 1 "twice.json:3: mode: given twice (first on line 2)" check twice.json
head -c 300 "$scenarios/published-256.json" >cut.json
refuses 1 "the text ends inside" check cut.json

# Stand-ins are marked, and noted once.
run check "$scenarios/h200/all-resident.json"
[ "$(grep -c '^note: Stand-ins' err)" = 1 ] && grep -q 'costs.law_fixed_ms.*costs.prefill_fixed_ms' err && grep -q '^~ costs.prefill_fixed_ms ' out
pass_or_fail $? 'stand-ins are marked and noted'
run check "$scenarios/h200/all-resident.json" --set=costs.law_fixed_ms=13 --set=costs.law_token_ms=0.2 --set=costs.prefill_fixed_ms=150 --set=costs.prefill_token_us=9
[ "$code" -eq 0 ] && [ ! -s err ] && ! grep -q '^~ costs.prefill_fixed_ms ' out
pass_or_fail $? 'one own number each: nothing to note'

# Drafts that cost nothing are said to: as recorded in half-revoked; the profile itself has a stand-in.
dspark=--set=speculation=deepseek-v4.1-flash.dspark
run check "$scenarios/h200/half-revoked.json" $dspark --set=policy.tail_tokens=512
grep -q '^note: Stand-ins, .*drafting costs nothing in this profile' err && ! grep -q 'nothing.*draft_ms.*;' err
pass_or_fail $? 'drafting that takes no time, beside stand-ins'
run check published-256 $dspark --set=costs=deepseek-v4.1-flash.roofline
grep -q '^note: Drafting costs nothing in this profile' err
pass_or_fail $? 'drafting that takes no time, and nothing else to note'
run check "$scenarios/h200/published-batch.json" $dspark --set=policy.tail_tokens=512
grep -q '^note: Stand-ins, .*costs.draft_ms_by_requests' err && ! grep -q 'drafting costs nothing' err
pass_or_fail $? 'drafting at a stand-in of its time'
run check "$scenarios/h200/half-revoked.json"
grep -q '^note: Stand-ins' err && ! grep -q draft err
pass_or_fail $? 'no drafts: nothing is said of them'

# Every origin that ships begins with how the value is known: kvl_scenario_doubt goes by those words, and "as in ..." would say nothing to it.
doubts='calibrated|estimate|assumed|open:|stand-in|start value|not published|chosen' known='public|measured|fitted|derived|part of|speed|none'
find "$scenarios" -name '*.json' -exec grep -noE '"origin": *"[^"]*"' {} + >origins
grep -vE "\"origin\": *\"($doubts|$known)" origins >unknown
[ "$(wc -l <origins)" -gt 200 ] && [ ! -s unknown ]
pass_or_fail $? "origins that do not say how a value is known: $(head -3 unknown | tr '\n' ' ')"

# A key of a kind that is not there.
unread() { # KEY KIND-KEY=KIND SCENARIO SETS...
  key=$1 kind=$2
  shift 2
  refuses 1 "$key: is not read, because ${kind%%=*} is \"${kind#*=}\"" check "$@"
}
for key in workload.file=nosuch.jsonl workload.format=agent workload.time_scale=2 workload.prefix_store_bytes=1e9 workload.open_interval_ms=1 workload.gamma_cv=2 \
  workload.concurrency=3; do
  unread "${key%%=*}" workload.kind=poisson published-256 --set=workload.kind=poisson --set=workload.rate_per_s=1 "--set=$key"
done
for key in workload.rate_per_s=5 workload.input_tokens=9 workload.cached_tokens=9 workload.output_tokens=9 workload.open_interval_ms=1; do
  unread "${key%%=*}" workload.kind=file mooncake-sample "--set=$key"
done
unread workload.rate_per_s workload.kind=closed published-256 --set=workload.rate_per_s=5
run check published-256 "--set=workload.rate_per_s=
5"
[ "$code" -eq 1 ] && [ "$(wc -l <err)" -eq 1 ]
pass_or_fail $? 'a line break in what was typed stays out of the message'
unread selection.file selection.source=preset published-256 --set=selection.source=preset --set=selection.file=nosuch.kvt
unread selection.preset selection.source=none published-256 --set=selection.source=none --set=selection.preset=hot-b
unread speculation.drafts speculation.method=none published-256 --set=speculation.drafts=3
unread costs.step_ms_by_tokens costs.compute=law published-256 '--set=costs.step_ms_by_tokens=[[1,2]]'
refuses 1 '(nearest: add --set=workload.kind=poisson or --set=workload.kind=gamma)' check published-256 --set=workload.rate_per_s=5
sed 's/"kind": "closed"/"rate_per_s": 5, "file": "nosuch.jsonl", "kind": "closed"/' "$scenarios/published-256.json" >both.json
says 'resident         46' check both.json # a file may have the keys of several kinds
says 'Every value' check published-256 --set=workload.kind=gamma --set=workload.rate_per_s=5 --set=workload.gamma_cv=2

refuses 1 'must be a whole number, is the string "100GB" (nearest: 100e9)' check published-256 --set=node.kv_pool_bytes=100GB
refuses 1 'must be a number, is the string "3 requests/s" (nearest: 3)' check published-256 --set=workload.kind=poisson '--set=workload.rate_per_s=3 requests/s'
other() { # FOLDER KIND USE: each file of the folder is said to be one of this kind, not a scenario
  for file in "$scenarios/$1"/*.json; do
    refuses 1 ": this is a $2, not a scenario (nearest: $3$file)" check "$file"
  done
  refuses 1 "$(basename "$file" .json): this is a $2, not a scenario (nearest: $3$(basename "$file" .json))" check "$(basename "$file" .json)"
}
other sweeps sweep 'kvloan sweep '
other models 'model descriptor' --set=model=
other hardware 'hardware descriptor' --set=node.hardware=
other costs 'cost profile' --set=costs=
other speculation 'speculation descriptor' --set=speculation=
for file in "$scenarios"/plans/*.json; do
  refuses 1 ": this is a plan, not a scenario (nearest: kvloan plan $file)" check "$file"
done
refuses 1 'out-of-reach: this is a plan, not a scenario (nearest: kvloan plan out-of-reach)' check out-of-reach
refuses 1 'this is a scenario, not a hardware descriptor (nearest: kvloan run ' check published-256 "--set=node.hardware=$scenarios/agent-sample.json"
refuses 1 'this is a hardware descriptor, not a cost profile (nearest: --set=node.hardware=' check published-256 "--set=costs=$scenarios/hardware/h200.json"
# Files of ours that are no JSON, and what others begin with; also for what takes descriptors.
printf 'KVLTRACE' >some.kvt
{ printf 'SQLite format 3'; head -c 53 /dev/zero; echo kvln; } >some.db
{ printf 'SQLite format 3'; head -c 99 /dev/zero; } >theirs.db
printf '\037\213\010' >some.gz
printf '\n{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1]}\n' >one.jsonl
cp "$(dirname "$0")/recorded/gpu-fixed.log" some.log
while read -r file use kind; do
  refuses 1 "$file: this is a $kind, not a scenario (nearest: $(echo "$use" | tr + ' ')$file)" check "$file"
done <<END
$scenarios/workloads/mooncake-sample.jsonl --set=workload.kind=file+--set=workload.file= workload
$scenarios/workloads/agent-sample.csv --set=workload.kind=file+--set=workload.file= workload
one.jsonl --set=workload.kind=file+--set=workload.file= workload
some.kvt --set=selection.source=trace+--set=selection.file= selection trace
some.db kvloan+results+list+--store= result store
some.log kvloan+replay+ decision log
END
refuses 1 'some.gz: not a scenario: looks like gzip data: unpack it first' check some.gz
refuses 1 'theirs.db: not a scenario: looks like an SQLite database' check theirs.db
mv one.jsonl workload.json
# What is no file is said to be what it is, whatever names it; a pipe is not waited for.
mkdir odd && mkdir odd/folder.json && mkfifo odd/pipe && ln -s nowhere odd/gone.json && ln -s loop.json odd/loop.json
sed 's|"hardware": "b300"|"hardware": "./folder.json"|' "$scenarios/published-256.json" >odd/named.json
refuses 1 'odd/named.json:8: node.hardware: "./folder.json" is a folder' check odd/named.json
for key in model node.hardware costs speculation; do
  refuses 1 "$key: \"./odd/folder.json\" is a folder; name a file in it" check published-256 --set=$key=./odd/folder.json
  refuses 1 "$key: \"odd/pipe\" is a pipe or a device; a descriptor is a file" check published-256 --set=$key=odd/pipe
  refuses 1 "$key: \"/dev/full\" is a pipe or a device" check published-256 --set=$key=/dev/full
  refuses 1 "$key: there is no file \"odd/gone.json\"" check published-256 --set=$key=odd/gone.json
  refuses 1 "$key: \"odd/loop.json\": Too many levels of symbolic links" check published-256 --set=$key=odd/loop.json
done
refuses 1 'workload.json: this is a workload, not a hardware descriptor (nearest: --set=workload.kind=file --set=workload.file=' check published-256 --set=node.hardware=./workload.json
refuses 1 'some.log: not a workload file: looks like a kvloan decision log' check mooncake-hour --set=workload.file=some.log
sed 's/"mode"/"target"/' "$scenarios/published-256.json" >slip.json # one member of another kind makes no other kind of it
refuses 1 'slip.json:5: target: unknown key' check slip.json

# A stored scenario is the same scenario, from any folder.
"$program" json "$scenarios/mooncake-sample.json" --set=seed=7 >one.json 2>err &&
  "$program" json one.json >two.json 2>err && cmp -s one.json two.json
pass_or_fail $? 'json of json is the same'
says 'the largest of' check one.json

# What docs/scenarios.md shows works.
guide=$(dirname "$keys")/scenarios.md
awk '/^```json/ {block++; next} /^```/ {inside = 0} block == 1 && !done {print} /^}/ {done = block == 1 || done}' "$guide" >guide.json
says 'glm-5.2.roofline: ESTIMATE' check guide.json
sed -n 's/^    kvloan scenario //p' "$guide" >commands
while read -r line; do
  # shellcheck disable=SC2086
  says 'Every value and its origin' $line
done <commands

"$program" keys >keys.md 2>err
cmp -s keys.md "$keys"
pass_or_fail $? 'docs/scenario-keys.md is up to date (kvloan scenario keys >docs/scenario-keys.md)'

if [ -w /dev/full ]; then
  "$program" check "$scenarios/published-256.json" >/dev/full 2>err
  [ $? = 1 ]
  pass_or_fail $? 'a full disk is an error'
fi
finish
