#!/bin/sh
# `kvloan run` and `kvloan reproduce` from outside: options, exit codes, messages, signals, full disks. Arguments: kvloan, scenarios/, make_recorded. Prints TAP.
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") scenarios=$2 make_recorded=$(absolute "$3")
work=$(mktemp -d) || exit 1
running=
trap 'test -n "$running" && kill -9 "$running" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1

# A small scenario, complete in itself.
"$program" scenario json "$scenarios/published-256.json" --set=workload.concurrency=4 --set=workload.requests=9 --set=workload.input_tokens=3000 \
  --set=workload.cached_tokens=2000 --set=workload.output_tokens=12 --set=workload.open_interval_ms=0 --set=policy.hot_rows=600 \
  --set=policy.bank_rows=0 --set=node.kv_pool_bytes=40000000 --set=node.host_pool_bytes=100000000 --set=name=small >small.json 2>err
pass_or_fail $? 'a scenario from a scenario'

# ---- run: what it prints ----
expect 0 'output_throughput_tok_per_s' run small.json --format=tsv
expect 0 'small' run small.json
expect 0 '"output_throughput_tok_per_s"' run small.json --format=json
missing=
for key in output_throughput_tok_per_s decode_batch_p50 decode_batch_max request_rate_tok_per_s_p50 ttft_s_p50 ttft_s_p90 ttft_s_p99 tpot_ms_p50 tpot_ms_p90 \
  tpot_ms_p99 e2e_s_p50 e2e_s_p90 e2e_s_p99 step_ms_p50 step_ms_p90 sessions_per_decode_gpu_max selections_total selections_by_tier scratch tail borrowed \
  bank hot host host_link_busy_share stall_ms_by_cause pages_lent pages_revoked pages_given_back requests_completed requests_aborted simulated_s wall_s \
  seed; do
  grep -qF "\"$key\":" out || missing="$missing $key"
done
[ -z "$missing" ] || echo "missing:$missing" >>err
test -z "$missing"
pass_or_fail $? 'every key of the summary is in the JSON'
if command -v python3 >/dev/null 2>&1; then
  python3 -m json.tool <out >parsed 2>>err
  pass_or_fail $? 'the JSON parses'
fi
! grep -q "$(printf '\r')" err && grep -q 'of wall time' err && grep -q 'selected positions a second' err
pass_or_fail $? 'no progress line in a pipe; it ends with speed and memory'

# As many requests as sessions at once: no window between the first completion and the last submission.
"$program" run small.json --set=workload.requests=4 >one 2>err && "$program" run small.json --set=workload.requests=4 --repeats=2 >two 2>err &&
  "$program" run small.json --set=workload.requests=4 --format=tsv >three 2>err
grep -q '^ *output, steady window  *- tok/s$' one && grep -q '^ *output, steady window  *-  *-  *-  tok/s$' two && grep -q '^output_throughput_steady_tok_per_s	0	tok/s$' three
pass_or_fail $? 'no steady window: tables have no number for it, TSV a 0'
"$program" run small.json --store=steady.db >one 2>err && "$program" run small.json --set=workload.requests=4 --store=steady.db >two 2>err &&
  "$program" results compare --store=steady.db 1 2 >out 2>err
grep '^ *output, steady window' one | grep -q '[1-9]' && grep -q '^ *output, steady window  *tok/s  *[0-9.,]*  *-  *differs$' out
pass_or_fail $? 'no steady window in one of two runs: no difference in percent'

# ---- run: the options ----
unmeasured() {
  grep -vE '^(wall_s|peak_memory_bytes|selections_per_wall_s)	' out >"$1"
}
"$program" run small.json --format=tsv --seed=7 --threads=1 >out 2>err && unmeasured one &&
  "$program" run small.json --format=tsv --set=seed=7 --threads=3 --verify --quiet >out 2>err && unmeasured two &&
  "$program" run --plane=host --format=tsv --seed=7 small.json --set=limits.batch_max=64 >out 2>err && unmeasured three && cmp -s one two && cmp -s one three
pass_or_fail $? 'one seed, one result: --threads, --verify, --quiet, --plane=host change nothing'
grep -q 'selected rows read back through their addresses, 0 differ' err
pass_or_fail $? 'the host plane reads every row back'
[ "$(awk '$1 == "peak_memory_bytes" { print $2 < 600000000 }' out)" = 1 ]
pass_or_fail $? 'the host plane has memory for the sessions that fit, not for every batch slot'
grep -q '^seed	7' one
pass_or_fail $? 'the seed is in the summary'
expect 0 'requests_completed	4' run small.json --format=tsv --set=workload.requests=3 --set=workload.requests=4
expect 1 'workload.output_tokens: must be at least 1, or nothing at all is decoded (nearest: 1)' run small.json --set=workload.output_tokens=0
for starts in arrival reservation; do
  expect 0 'requests_aborted	300' run small.json --format=tsv --verify --set=workload.kind=poisson --set=workload.rate_per_s=1000 --set=workload.requests=300 \
    --set=node.prefill_gpus=1 --set=costs.prefill_fixed_ms=30 --set=limits.request_timeout_s=0.1 --set=node.prefill_starts=$starts
  [ "$(awk '$1 == "simulated_s" { print $2 < 1 }' out)" = 1 ]
  pass_or_fail $? "$starts: a client that went away while it waited for prefill is not prefilled"
done
expect 0 'requests_completed	9' run small.json --format=tsv --verify --set=workload.input_tokens=1 --set=workload.cached_tokens=0
expect 1 'workload.file: is not read, because workload.kind is "closed"' run small.json --set=workload.file=nosuch.jsonl
"$program" run small.json --set=costs=deepseek-v4.1-flash.h200 >out 2>err && [ "$(grep -c '^note: Stand-ins' err)" = 1 ] &&
  "$program" run small.json --set=costs=deepseek-v4.1-flash.h200 --repeats=2 >out 2>err && [ "$(grep -c '^note: Stand-ins' err)" = 1 ]
pass_or_fail $? 'stand-ins are noted, once'
expect 0 'usage: kvloan run' run --help
if script -qec true /dev/null >/dev/null 2>&1; then
  script -qec "'$program' run small.json --set=workload.requests=6000" /dev/null >out 2>err
  grep -q 'simulated, .* of 6000 requests done, .* s to go' out
  pass_or_fail $? 'a progress line on a terminal'
  script -qec "'$program' run small.json --quiet" /dev/null >out 2>err
  ! grep -q 'requests done' out
  pass_or_fail $? 'none with --quiet'
fi
expect 0 'requests_aborted' run small.json --format=tsv --set=limits.simulated_s_max=0.1
grep -q 'ended early at 0.1' err
pass_or_fail $? 'a limit of simulated time is no error, and is said'
expect 0 'requests_completed	200' run "$scenarios/mooncake-sample.json" --format=tsv --set=selection.source=none

# The samples that ship press on their pools, in each mode: pages come and go, and fixed and adaptive mode select from the host; whole histories wait.
for sample in mooncake-sample agent-sample; do
  run run "$scenarios/$sample.json" --format=tsv --set=workload.requests=60 --set=mode=resident
  waits=$(awk -F '\t' '$1 == "ttft_s_p90" { print $2 }' out)
  run run "$scenarios/$sample.json" --format=tsv --set=workload.requests=60
  [ $code -eq 0 ] && awk -F '\t' -v waits="$waits" '$1 == "selections_by_tier.host" && $2 > 1e5 || $1 == "pages_revoked" && $2 > 1e3 || $1 == "pages_given_back" && $2 > 0 || $1 == "ttft_s_p90" && $2 < waits / 1.5 { n++ }
    END { exit n != 4 }' out
  pass_or_fail $? "$sample presses on its pools"
done

# ---- run: usage ----
expect 2 'which scenario?' run
expect 2 'one scenario at a time' run small.json small.json
expect 2 'did you mean json?' run small.json --format=jsn
expect 2 'not a number from 1 to 256' run small.json --threads=0
expect 2 'not a number from 1 to 256' run small.json --threads=2x
expect 2 'there is no option --vreify; did you mean --verify?' run small.json --vreify
expect 2 '--set needs a value: --set=VALUE' run small.json --set
expect 2 'there is no option -x (' run small.json --set=seed=1 -xy
expect 2 'there is no option -q (' run small.json --quiet -quiet
expect 2 "did you mean 'run'?" rnu small.json

# ---- run: bad input ----
expect 2 'did you mean host?' run small.json --plane=hots
expect 1 'nearest: policy.hot_rows' run small.json --set=policy.hot_row=5
expect 2 'KEY=VALUE' run small.json --set=nonsense
expect 2 'seed' run small.json --seed=minus
expect 1 'nowhere.json' run nowhere.json
expect 1 'is a folder' run "$work"
expect 1 'nowhere.jsonl' run "$scenarios/mooncake-sample.json" --set=workload.file=nowhere.jsonl
printf '{"timestamp": 9, "input_length": 10, "output_length": 1, "hash_ids": [1]}\n{"timestamp": 8, "input_length": 10, "output_length": 1, "hash_ids": [1]}\n' >back.jsonl
expect 1 'back.jsonl:2: timestamp goes backwards, from 9 to 8 ms' run "$scenarios/mooncake-sample.json" --set=workload.file=back.jsonl
head -c 1000 "$scenarios/workloads/mooncake-sample.jsonl" >cut.jsonl
expect 1 'cut.jsonl:' run "$scenarios/mooncake-sample.json" --set=workload.file=cut.jsonl
head -c 1000 "$scenarios/workloads/agent-sample.csv" >cut.csv
expect 0 'requests_completed	3' run "$scenarios/mooncake-sample.json" --format=tsv --set=workload.requests=3 --set=selection.source=none \
  --set=workload.prefix_store_bytes=72057594037927936
expect 1 'model.caches: cache E1: rows of 288 bytes do not divide a page' run small.json --set=model.caches.0.row_bytes=1
expect 1 'cut.csv:' run "$scenarios/agent-sample.json" --set=workload.file=cut.csv
expect 1 'missing.trace' run small.json --set=selection.source=trace --set=selection.file=missing.trace
"$program" trace gen --out=good.trace --model=deepseek-v4.1-flash --context=3000 --sessions=2 --steps=15 >out 2>err
expect 0 'requests_completed	9' run small.json --format=tsv --set=selection.source=trace --set=selection.file=good.trace --plane=host --verify
grep -q ' 0 differ' err
pass_or_fail $? 'recorded selections on the host plane'
on_trace() { # FILE SETTINGS...: where the rows of drafts that were not recorded come from
  file=$1
  shift
  run "$@" --set=selection.source=trace --set=selection.file="$file"
  [ "$code" -eq 0 ] && grep -qF 'the rows of the recorded step that stands at the draft' err
}
drafts='--set=speculation.method=dspark --set=speculation.drafts=3 --set=speculation.accepted_mean=2 --set=policy.tail_tokens=512'
for command in 'run small.json' 'run small.json --repeats=2' 'scenario check small.json'; do
  # shellcheck disable=SC2086
  on_trace good.trace $command $drafts && grep -q '^note: steps of up to 4 queries on a trace of up to 1: ' err
  pass_or_fail $? "$command: drafts on a trace of one query a step are noted"
done
! on_trace good.trace run small.json
pass_or_fail $? 'without drafts there is nothing to note'
"$make_recorded" good.trace three.trace 3 && "$make_recorded" good.trace four.trace 4
# shellcheck disable=SC2086
on_trace three.trace run small.json $drafts && ! on_trace four.trace run small.json $drafts && [ "$code" -eq 0 ]
pass_or_fail $? 'nor where all of them were recorded'
head -c 20000 good.trace >cut.trace
expect 1 'cut.trace' run small.json --set=selection.source=trace --set=selection.file=cut.trace
"$program" trace gen --out=other.trace --k=64 --context=3000 --sessions=1 --steps=5 >out 2>err
expect 1 'other.trace' run small.json --set=selection.source=trace --set=selection.file=other.trace
expect 1 'cannot hold one session' run small.json --set=node.kv_pool_bytes=3000000
expect 1 'node.kv_pool_bytes' run "$scenarios/mooncake-sample.json" --set=node.kv_pool_bytes=20000000
expect 1 'would come after 146 years' run small.json --set=workload.kind=poisson --set=workload.rate_per_s=1e-12
expect 1 'has passed 146 years' run small.json --set=costs.prefill_token_us=3600000 --set=workload.requests=2000000 --set=workload.input_tokens=100000 --set=workload.output_tokens=1 --set=workload.cached_tokens=0
expect 1 'policy.tail_tokens: is 64, but must be more than policy.page_tokens, 64 (nearest: 128)' run small.json --set=policy.tail_tokens=64

# ---- run: the store ----
expect 0 'small' run small.json --store=runs.db
grep -q 'stored as run 1 in runs.db' err
pass_or_fail $? 'the number in the store is said'
expect 0 'complete' results list --store=runs.db --format=tsv
expect 1 'no/such/folder' run small.json --store=no/such/folder/runs.db
echo 'no database' >text.db
expect 1 'text.db' run small.json --store=text.db
expect 1 "$work" run small.json --store="$work"
if [ -w /dev/full ]; then
  "$program" run small.json >/dev/full 2>err
  [ $? = 1 ] && grep -q 'standard output could not be written' err
  pass_or_fail $? 'a full standard output is an error'
  "$program" scenario check small.json >/dev/full 2>err
  [ $? = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -q 'standard output could not be written' err
  pass_or_fail $? 'scenario check says it in one line'
fi
# A disk with room for the first rows only: one line, and the run does not read complete.
"$program" results list --store=runs.db >out 2>err
(
  ulimit -f 60
  "$program" run small.json --store=small.db --set=workload.requests=3000 --set=workload.output_tokens=2 --set=selection.source=none >out 2>err
)
[ $? = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -q 'small.db' err
pass_or_fail $? 'a store that may not grow is an error of one line'
"$program" results list --store=small.db --format=tsv >out 2>err
! grep -q '	complete' out
pass_or_fail $? 'and its run does not read complete'

# ---- run: signals ----
endless() { # STORE: begins a run that would take forever; returns when it is in the store
  "$program" run small.json --store="$1" --set=workload.requests=1000000000 >signal.out 2>signal.err &
  running=$!
  tries=0
  while ! "$program" results list --store="$1" --format=tsv 2>/dev/null | grep -q 'running'; do
    tries=$((tries + 1))
    [ $tries -gt 200 ] && break
    sleep 0.05
  done
  sleep 0.1
}
for signal in INT TERM; do
  endless $signal.db
  kill -$signal $running
  wait $running
  code=$?
  running=
  cp signal.out out
  cp signal.err err
  [ $code = 130 ] && grep -q 'ended early' err && grep -q 'completed' out
  pass_or_fail $? "SIG$signal ends cleanly: exit 130, the summary so far"
  expect 0 'interrupted' results list --store=$signal.db --format=tsv
done
endless killed.db
kill -9 $running
wait $running 2>/dev/null
running=
expect 0 'incomplete' results list --store=killed.db --format=tsv
expect 0 'small' run small.json --store=killed.db
expect 0 'complete' results show --store=killed.db latest

# ---- reproduce, on a scenario as small ----
mkdir published
cp "$scenarios/published.csv" published/
"$program" scenario json small.json --set=workload.requests=384 --set=workload.concurrency=256 --set=workload.input_tokens=200 --set=workload.cached_tokens=100 \
  --set=workload.output_tokens=3 --set=policy.hot_rows=64 --set=selection.source=none --set=policy.bank_rows=256 >published/small.json 2>err
pass_or_fail $? 'a small published scenario'
# verdict CODE TEXT ARGUMENTS...: such a scenario is far off the published rows: exit 1, the rows all the same.
verdict() {
  text=$1
  shift
  "$program" reproduce --scenario=published/small.json --set=speculation.weights_bytes=0 --set=speculation.graph_bytes=0 \
    --set=speculation.scratch_bytes=0 "$@" >out 2>err
  [ $? = 1 ] && grep -qF -- "$text" out && [ ! -s err ]
  pass_or_fail $? "reproduce $*"
}
verdict 'FAILED: the worst row of the verdict'
rows=0
for row in P01 P02 P03 P04 P05 P06 P07 P08 P09 P10 P11 P12 P13 P14 P15 P16 P17 P18 P19 P20; do
  grep -q "^$row .*\(calibration\|predicted\|printed\)" out && rows=$((rows + 1))
done
[ $rows = 20 ] && grep -q 'Negative controls' out && grep -q 'fixed mode' out && grep -q '^Row P19 where' out && grep -q '^queries share 90 % ' out
pass_or_fail $? 'every published row, the controls and what P19 hangs on are printed'
verdict '"worst_percent"' --format=json --no-controls --threads=2
if command -v python3 >/dev/null 2>&1; then
  python3 -m json.tool <out >parsed 2>>err
  pass_or_fail $? 'the JSON parses'
fi
verdict 'P03	resident' --format=tsv --no-controls
[ "$(grep -c '^P' out)" = 20 ]
pass_or_fail $? 'twenty rows of TSV'
verdict 'left out' --leave-out=P07 --no-controls
verdict 'FAILED: the worst row' --set=workload.output_tokens=2 --set=seed=3 --no-controls
# A row that speaks of something else is not compared with what is simulated for its number.
while read -r row edit words; do
  sed "/^$row/ s|$edit|" "$scenarios/published.csv" >published/published.csv
  expect 1 "published/published.csv$words" reproduce --scenario=published/small.json
done <<'END'
P01 sessions,46|hours,46 : row P01: is resident, sessions_per_decode_gpu_max in hours; what is simulated for it is resident, sessions_per_decode_gpu_max in sessions
P03 resident|adaptive : row P03: is adaptive, output_throughput in tok/s; what is
P09 ttft_p90|ttft_p99 : row P09: is resident, ttft_p99 in s; what is
P03 3563|-3563 : row P03: output_throughput is not less than 0
P11 4133|about :12: repeat 'about' is not a number
END
cp "$scenarios/published.csv" published/
expect 1 'nearest: policy.hot_rows' reproduce --scenario=published/small.json --set=policy.hot_row=5
verdict 'Fitted numbers' --refit --no-controls --store=fit.db
expect 0 'complete' results list --store=fit.db --format=tsv
expect 0 'usage: kvloan reproduce' reproduce --help
expect 2 'did you mean table?' reproduce --format=tabel
expect 2 'not a number from 1 to 256' reproduce --threads=many
expect 2 "takes no argument 'x'" reproduce x
expect 2 'there is no option --refti; did you mean --refit?' reproduce --refti
expect 1 'P01, P02, P05, P07, P08, P13, P16, P17' reproduce --leave-out=P03 --scenario=published/small.json
expect 1 'P01, P02, P05, P07, P08, P13, P16, P17' reproduce --leave-out=P99 --scenario=published/small.json
expect 1 'nowhere.json' reproduce --scenario=nowhere.json
expect 1 'published.csv' reproduce --scenario=small.json
sed 's/^P06,/P66,/' "$scenarios/published.csv" >published/published.csv
expect 1 'row P06 is missing' reproduce --scenario=published/small.json
sed '3s/,82,/,many,/' "$scenarios/published.csv" >published/published.csv
expect 1 'published.csv:3' reproduce --scenario=published/small.json
sed '/^P03,/s/,3563,/,0,/' "$scenarios/published.csv" >published/published.csv
expect 1 'row P03: nothing differs from 0' reproduce --scenario=published/small.json
cp "$scenarios/published.csv" published/published.csv
expect 1 'workload.kind: the published experiment is a closed loop' reproduce --scenario=published/small.json --set=workload.kind=poisson \
  --set=workload.rate_per_s=9
expect 1 'or nothing at all is decoded' reproduce --scenario=published/small.json --no-controls --set=workload.output_tokens=0
"$program" reproduce >reproduce.out 2>reproduce.err &
running=$!
sleep 0.5
kill -INT $running
wait $running
code=$?
running=
cp reproduce.out out
cp reproduce.err err
[ $code = 130 ] && [ "$(wc -l <err)" = 1 ]
pass_or_fail $? 'SIGINT ends reproduce: exit 130 and a line'

finish
