#!/bin/sh
# `kvloan run --record`, `kvloan replay` and `kvloan validate` from outside: options, exit codes, messages, files. Arguments: kvloan, make_log, scenarios/. Prints TAP.
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") make_log=$(absolute "$2") scenarios=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" && mkdir tmp || exit 1
TMPDIR=$work/tmp
export TMPDIR

# Small, and pages come and go in it.
"$program" scenario json "$scenarios/published-256.json" --set=name=small --set=workload.concurrency=6 --set=workload.requests=9 --set=workload.input_tokens=2000 \
  --set=workload.cached_tokens=0 --set=workload.output_tokens=30 --set=workload.open_interval_ms=20 --set=policy.hot_rows=600 --set=policy.bank_rows=0 \
  --set=node.decode_gpus=1 --set=node.kv_pool_bytes=22000000 --set=node.host_pool_bytes=60000000 --set=policy.horizon_ms=100 \
  --set=policy.give_back_bytes_max=300000 >small.json 2>err
pass_or_fail $? 'a scenario from a scenario'

# ---- record ----
expect 0 'small, adaptive' run small.json --plane=host --quiet --record=host.log
test "$(head -n 1 host.log)" = 'kvloan-log 1' && tail -n 1 host.log | grep -q '^end complete [0-9]* [0-9a-f]*$'
pass_or_fail $? 'the log has its first and its last line'
"$program" run small.json --quiet >plain 2>err && "$program" run small.json --quiet --record=model.log >recorded 2>err &&
  grep -v 'wall\|memory' plain >a && grep -v 'wall\|memory' recorded >b && cmp a b >out
pass_or_fail $? 'recording changes nothing'
sed 2d host.log | sed '$d' >a && sed 2d model.log | sed '$d' >b && cmp a b >out
pass_or_fail $? 'host and model plane decide alike'
"$program" run small.json --quiet --threads=1 --record=again.log >out 2>err && cmp model.log again.log >>out
pass_or_fail $? 'one scenario, one log'
expect 1 '/nonexistent/x.log: the log cannot be written' run small.json --quiet --record=/nonexistent/x.log
mkdir folder
expect 1 'folder: the log cannot be written' run small.json --quiet --record=folder
mkfifo pipe
expect 1 'pipe: the log cannot be written: not a plain file' run small.json --quiet --record=pipe
test -p pipe
pass_or_fail $? 'a pipe is not replaced'
expect 1 '--record=: the log cannot be written: the name is empty' run small.json --quiet --record=
( trap '' XFSZ; ulimit -f 8; "$program" run small.json --quiet --record=big.log ) >out 2>err
test $? = 1 && grep -qF 'big.log: the log cannot be written' err && ! ls big.log* >/dev/null 2>&1
pass_or_fail $? 'a full disk leaves no log'
"$program" run small.json --quiet --set=limits.simulated_s_max=0.4 --record=short.log >out 2>err && tail -n 1 short.log | grep -q '^end interrupted'
pass_or_fail $? 'a run that was cut short says so in its log'

# ---- replay ----
expect 0 'decisions, all identical' replay host.log
expect 0 'recorded on the host plane' replay host.log --plane=host --verify
"$program" run small.json --plane=host --quiet 2>&1 >out | grep 'read back through' >said
grep '^[1-9][0-9]* selected rows read back through their addresses, 0 differ$' err | cmp -s said - && [ -s said ]
pass_or_fail $? 'on the host plane it reads back what the run did, and says so alike'
"$program" replay host.log >out 2>err && ! grep -q 'read back' err
pass_or_fail $? 'on the model plane there is nothing to read'
awk '/^MemAvailable/ { exit !($2 > 500e6) }' /proc/meminfo || # kB; such a machine would give it
  refuses 1 'GB, histories of 6 sessions of 0.001 GB), ' run small.json --plane=host --quiet --set=node.hardware.hbm_gb=400000 --set=node.kv_pool_bytes=600000000000
expect 0 '"identical": true' replay host.log --json
if command -v python3 >/dev/null 2>&1; then
  python3 -m json.tool <out >parsed 2>>err
  pass_or_fail $? 'the JSON is JSON'
fi
expect 0 'selections_by_tier.borrowed' replay host.log --tsv
expect 0 'decisions, all identical' replay short.log
expect 1 'missing.log: cannot read the log' replay missing.log
expect 1 'small.json:1: not a decision log' replay small.json
head -c 20000 host.log >cut.log
expect 1 'cut.log:' replay cut.log
sed 's/^open 0 1 /open 0 2 /' host.log >changed.log
expect 1 'changed since it was written' replay changed.log
# A scenario that is another one, sealed again: the decisions differ, and the line says where.
sed '4s/"output_tokens":{"value":30,/"output_tokens":{"value":29,/' host.log >other.log
"$make_log" --seal other.log >sealed
expect 1 'sealed:' replay sealed
grep -q '^sealed:[0-9]*: the decisions differ: recorded .*, replayed ' err
pass_or_fail $? 'the line says what differs'
sed '4s/"output_tokens":{"value":30,/"output_tokenz":{"value":30,/' host.log >bad.log
"$make_log" --seal bad.log >sealed
expect 1 'sealed:4: the scenario in the log' replay sealed
sed 's/lanes 0,\([0-9]*\),/lanes 0,1\1,/' host.log >counts.log
"$make_log" --seal counts.log >sealed
"$program" replay sealed >out 2>err
test $? = 1 && grep -q 'steps have other counts; line [0-9]*, step ' err && grep -q '^steps with other counts *[1-9]' out
pass_or_fail $? 'counts that differ are reported, and exit 1'
# Files that a scenario names: who replays a log may never have heard of them.
"$program" trace gen --out=own.kvt --model=deepseek-v4.1-flash --context=2000 --sessions=1 --steps=30 >out 2>err &&
  "$program" run small.json --quiet --set=selection.source=trace --set=selection.file=own.kvt --record=own.log >out 2>err && "$program" replay own.log >out 2>err && mv own.kvt moved.kvt
pass_or_fail $? 'a log of a run on a trace file'
refuses 1 'own.log:4: the scenario in the log: selection.file: own.kvt: ' replay own.log
for command in run 'scenario check'; do
  # shellcheck disable=SC2086
  refuses 1 'small.json: selection.file: own.kvt: ' $command small.json --set=selection.source=trace --set=selection.file=own.kvt
done
cp "$scenarios/workloads/mooncake-sample.jsonl" own.jsonl && "$program" run "$scenarios/mooncake-sample.json" --quiet --set=workload.file=own.jsonl --set=workload.requests=2 --record=own.log >out 2>err &&
  "$program" replay own.log >out 2>err && mv own.jsonl moved.jsonl
pass_or_fail $? 'a log of a run on a workload file'
refuses 1 'own.log:4: the scenario in the log: workload.file: own.jsonl: ' replay own.log
expect 2 'did you mean --verify' replay host.log --verfy
expect 2 'which log?' replay
expect 2 'did you mean json' replay host.log --format=jsn
expect 1 'no such plane; did you mean host' replay host.log --plane=hots

# ---- validate ----
expect 0 'mismatches' validate small.json --plane=host
grep -q 'validation passed' err
pass_or_fail $? 'it says that it passed'
expect 0 '"failed": 0' validate small.json --plane=host --json
if command -v python3 >/dev/null 2>&1; then
  python3 -m json.tool <out >parsed 2>>err
  pass_or_fail $? 'the JSON is JSON'
fi
"$program" validate small.json --plane=host --tsv --store=runs.db --record=kept.log --check=sample >out 2>err
got=$?
awk -F '\t' 'NF != 10 { exit 1 }' out && test $got = 0 && "$program" replay kept.log >parsed 2>>err
pass_or_fail $? 'TSV of ten columns; the log is kept'
checked=$(awk -F '\t' '$2 == "rows_checked" { print $4 }' out) all=$(awk -F '\t' '$1 == "selections" && $2 != "rows_fetched" { s += $4 } END { print s }' out)
test "$checked" -gt 0 && test "$checked" -lt "$all"
pass_or_fail $? 'a sample is a part'
if command -v sqlite3 >/dev/null 2>&1; then
  test "$(sqlite3 runs.db "SELECT count(*) FROM validations v JOIN runs r USING (run) WHERE r.plane = 'host' AND r.status = 'complete'")" -gt 20
  pass_or_fail $? 'the store has the comparison beside its run'
fi
"$program" results export --store=runs.db latest --what=validation >parsed 2>err && cmp out parsed >>err
pass_or_fail $? 'what is stored is what was printed'
"$program" run small.json --store=runs.db --quiet >/dev/null 2>&1
expect 1 'run 2 has no validation' results export --store=runs.db 2 --what=validation
expect 0 'small' results list --store=runs.db
"$program" results merge merged.db runs.db >parsed 2>err && "$program" results export --store=merged.db 1 --what=validation >merged 2>>err &&
  "$program" results export --store=runs.db 1 --what=validation >wanted 2>>err && cmp wanted merged >>err
pass_or_fail $? 'a merged store has the comparison too'
"$program" validate small.json >out 2>err # the default plane is the GPU
got=$?
if [ $got != 0 ]; then
  test $got = 1 && test ! -s out && grep -q 'plane=cuda' err && [ "$(wc -l <err)" = 1 ]
  pass_or_fail $? 'without a GPU it says what is missing'
fi
"$program" validate small.json --plane=model >out 2>err
test $? = 1 && grep -q 'rows_checked .*FAILED' out
pass_or_fail $? 'a plane that compares nothing does not pass'
expect 0 'rows_checked' validate small.json --plane=model --check=none
grep -q 'mismatches' out && ! grep -q 'mismatches.*\(0\|ok\)' out
pass_or_fail $? 'what was not compared has no verdict'
expect 2 'did you mean sample' validate small.json --check=samle
expect 2 'which scenario?' validate
expect 2 'no such plane' validate small.json --plane=hst
ls tmp >out
test ! -s out
pass_or_fail $? 'no temporary log is left'

finish
