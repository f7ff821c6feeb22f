#!/bin/sh
# `kvloan sweep` from outside: killed at any moment it goes on; shards make the same; failures and bad input are told.
# test_sweep_cli.sh KVLOAN FOLDER-OF-THIS-TEST SCENARIOS [SEED]
set -u
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") here=$(absolute "$2") scenarios=$(absolute "$3") seed=${4-$(date +%s)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export KVLOAN_SCENARIOS="$scenarios"
cp "$here"/*.json "$folder"/ && cd "$folder" || exit 1
echo "# seed $seed"

# A number from 1 to $1, from the seed.
random=$((seed % 2147483647 + 1))
draw() {
  random=$((random * 48271 % 2147483647))
  drawn=$((random % $1 + 1))
}
pause() { # up to $1 hundredths of a second
  draw "$1"
  sleep "$((drawn / 100)).$(printf %02d $((drawn % 100)))"
}
export_sweep() { # STORE SWEEP FILE
  "$program" results export --store="$1" "$2" --what=sweep >"$3" 2>>err
}
# Every run in the store belongs to a finished task, and every finished task has one run.
store_is_sound() {
  "$program" results list --store="$1" --format=tsv >runs 2>>err && "$program" results export --store="$1" grid --what=sweep >tasks 2>>err &&
    [ "$(awk -F '\t' 'NR > 1 && $6 == "complete"' runs | wc -l)" -eq "$(awk -F '\t' 'NR > 1 && $10 == "complete"' tasks | wc -l)" ] &&
    [ "$(awk 'END { print NR }' runs)" -eq "$(awk -F '\t' 'NR > 1 && $10 == "complete"' tasks | awk 'END { print NR + 1 }')" ]
}

# ---- a sweep, whole ----
run sweep grid.json --store=whole.db --jobs=1
[ $code -eq 0 ] && grep -q '24 of 24 runs complete; sweep 1 in whole.db' err && [ "$(grep -c '^ *[0-9]' out)" -eq 12 ] && ! ls | grep -q tasks-
pass_or_fail $? 'a sweep runs to its end and leaves only its store'
export_sweep whole.db grid want
awk -F '\t' 'NR > 1 && ($3 != NR - 1 || $10 != "complete") { bad = 1 } END { exit bad || NR != 25 }' want
pass_or_fail $? 'the export has every task in order'
run sweep grid.json --store=whole.db
[ $code -eq 0 ] && grep -q '24 of 24 runs are in whole.db already' err && [ "$("$program" results list --store=whole.db --format=tsv | wc -l)" -eq 25 ]
pass_or_fail $? 'started again it has nothing to do'

# each point can be repeated by the command that its run has
"$program" results show --store=whole.db 5 --format=tsv | sed -n 's/^run.command\t\(kvloan\)\(.*\)\t$/\2/p' >command
"$program" results export --store=whole.db 5 --format=json | grep -vE '"(wall_s|selections_per_wall_s|peak_memory_bytes)"' >a
eval "\"\$program\" $(cat command) --quiet --format=json" 2>>err | grep -vE '"(wall_s|selections_per_wall_s|peak_memory_bytes)"' >b
[ -s a ] && cmp -s a b
pass_or_fail $? 'the command of a stored run gives the same summary again'

# ---- kill -9 of the parent, at random moments ----
rounds=0 sound=0
while [ $rounds -lt 40 ]; do
  rounds=$((rounds + 1))
  "$program" sweep grid.json --store=killed.db --jobs=2 --quiet >/dev/null 2>err &
  parent=$!
  pause 25
  kill -9 $parent 2>/dev/null
  wait $parent 2>/dev/null
  done=$?
  [ -s killed.db ] && "$program" results sweeps --store=killed.db --format=tsv 2>/dev/null | grep -q grid || continue # killed before the sweep was in its store: nothing to look at
  store_is_sound killed.db || { sound=1; break; }
  [ $done -eq 0 ] && break
done
run sweep grid.json --store=killed.db --quiet
[ $code -eq 0 ] && [ $sound -eq 0 ] && export_sweep killed.db grid got && cmp -s want got && store_is_sound killed.db && ! ls | grep -q tasks-
pass_or_fail $? "killed with -9 up to $rounds times it goes on; nothing lost, nothing twice, equal to the byte"

# ---- kill -9 of children ----
# points that take long enough to be hit
run sweep grid.json --set=workload.output_tokens=200 --store=slow-want.db --keep=summary --quiet
export_sweep slow-want.db grid slow-want
"$program" sweep grid.json --set=workload.output_tokens=200 --store=children.db --jobs=2 --quiet >/dev/null 2>err &
parent=$! hits=0
while [ $hits -lt 2 ] && kill -0 $parent 2>/dev/null; do # two kills cannot use up the three attempts of a point
  pause 30
  child=$(ps -o pid= --ppid $parent 2>/dev/null | head -n 1)
  [ -n "$child" ] && kill -9 $child 2>/dev/null && hits=$((hits + 1))
done
wait $parent
code=$?
[ $code -eq 0 ] && export_sweep children.db grid got && cmp -s slow-want got && store_is_sound children.db
pass_or_fail $? "children killed with -9 ($hits times) are tried again; the result is the same"

# a point that is killed each time is a failed point, until it is asked for again
printf '{"name": "grid", "scenario": "base.json", "set": {"workload.output_tokens": 3000}, "list": [{}]}' >one.json
"$program" sweep one.json --store=one.db --quiet >/dev/null 2>err &
parent=$!
while kill -0 $parent 2>/dev/null; do
  child=$(ps -o pid= --ppid $parent 2>/dev/null | head -n 1)
  [ -n "$child" ] && kill -9 $child 2>/dev/null
  sleep 0.05
done
wait $parent
[ $? -eq 1 ] && run results table --store=one.db && grep -q 'point 1 failed: ended by signal 9 in each of 3 attempts' out
pass_or_fail $? 'a point that is killed each time is stored as failed'

# children end with their parent
"$program" sweep grid.json --set=workload.output_tokens=200 --store=orphans.db --jobs=2 --quiet >/dev/null 2>err &
parent=$!
sleep 0.3
children=$(ps -o pid= --ppid $parent 2>/dev/null)
kill -9 $parent
wait $parent 2>/dev/null
sleep 0.3
alive=0
for child in $children; do
  case $(ps -o stat= -p $child 2>/dev/null) in
  '' | Z*) ;;
  *) alive=1 ;;
  esac
done
[ $alive -eq 0 ]
pass_or_fail $? 'children end with their parent'

# ---- interrupted ----
"$program" sweep grid.json --set=workload.output_tokens=200 --store=int.db --jobs=2 >/dev/null 2>err &
parent=$!
sleep 0.4
kill -TERM $parent
wait $parent
code=$?
[ $code -eq 130 ] && grep -q 'the same command goes on' err && [ "$(wc -l <err)" -eq 1 ] && ! ls | grep -q 'int.db.tasks'
pass_or_fail $? 'TERM ends it with 130 and one line'

# ---- progress: on a terminal, and nowhere else ----
if command -v script >/dev/null 2>&1 && script -qec true /dev/null </dev/null >/dev/null 2>&1; then
  script -qec "'$program' sweep grid.json --store=tty.db --set=workload.output_tokens=150" tty.log </dev/null >/dev/null 2>&1
  tr '\r' '\n' <tty.log >out
  grep -q 'grid: [0-9]* of 24 runs, [12] at work, [0-9]* s to go' out
  pass_or_fail $? 'progress with the time to go on a terminal'
fi
run sweep grid.json --store=pipe.db --format=tsv
[ $code -eq 0 ] && [ "$(wc -l <err)" -eq 1 ] && ! grep -q "$(printf '\r')" err && [ "$(wc -l <out)" -eq 13 ]
pass_or_fail $? 'no progress in a pipe: one line at the end'

# ---- two at once ----
"$program" sweep grid.json --set=workload.output_tokens=200 --store=two.db --jobs=1 --quiet >/dev/null 2>&1 &
parent=$!
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  "$program" results sweeps --store=two.db 2>/dev/null | grep -q running && break
  sleep 0.1
done
refuses 1 "process $parent works on this sweep" sweep grid.json --set=workload.output_tokens=200 --store=two.db --quiet
"$program" sweep grid.json --set=workload.output_tokens=200 --store=two.db --quiet --take-over >/dev/null 2>waiting &
heir=$!
run sweep failing.json --store=two.db --quiet --failed-ok
[ $code -eq 0 ]
pass_or_fail $? 'another sweep may use the same store at the same time'
wait $parent && export_sweep two.db grid got && cmp -s slow-want got
pass_or_fail $? 'and neither changes the other'
wait $heir && grep -q "^waiting: .*process $parent works on this sweep" waiting && [ "$("$program" results list --store=two.db --format=tsv | wc -l)" -eq 27 ]
pass_or_fail $? '--take-over waits for who lives on this machine, and runs nothing twice'

# ---- shards ----
# each as if on a machine of its own: another folder with the same files
for i in 3 1 2; do
  mkdir machine-$i && cp ./*.json machine-$i/
  (cd machine-$i && exec "$program" sweep "$PWD/grid.json" --store=../shard-$i.db --shard=$i/3 --jobs=$i --quiet) >out 2>err
  code=$?
  (cd machine-$i && exec "$program" sweep failing.json --store=../failing-$i.db --shard=$i/3 --failed-ok --quiet) >/dev/null 2>>err || code=1
  [ $code -eq 0 ] || break
done
[ $code -eq 0 ] && run results merge merged.db shard-2.db shard-3.db shard-1.db && export_sweep merged.db grid got && cmp -s want got && store_is_sound merged.db
pass_or_fail $? 'three shards merged equal the whole, byte for byte'
run sweep failing.json --store=failing-whole.db --failed-ok --quiet
run results merge failing-merged.db failing-1.db failing-2.db failing-3.db
[ $code -eq 0 ] && export_sweep failing-whole.db failing a && export_sweep failing-merged.db failing b && cmp -s a b && [ "$(grep -c failed b)" -ge 3 ]
pass_or_fail $? 'failures and their reasons as well'
run results merge merged.db shard-1.db whole.db
[ $code -eq 0 ] && grep -q 'merged.db: 0 runs brought in, 32 were there' err && export_sweep merged.db grid got && cmp -s want got
pass_or_fail $? 'merging again changes nothing'
run results merge part.db shard-1.db shard-3.db
run sweep grid.json --store=part.db --quiet
[ $code -eq 0 ] && export_sweep part.db grid got && cmp -s want got
pass_or_fail $? 'what shards left out is run in the merged store'
# two shards into one store at once
"$program" sweep grid.json --store=same.db --shard=1/2 --quiet >/dev/null 2>err &
parent=$!
"$program" sweep grid.json --store=same.db --shard=2/2 --quiet >/dev/null 2>err2
code=$?
wait $parent && [ $code -eq 0 ] && export_sweep same.db grid got && cmp -s want got
pass_or_fail $? 'two shards may write to one store at once'
if command -v parallel >/dev/null 2>&1 && parallel --version 2>/dev/null | grep -q GNU; then
  parallel --will-cite "$program sweep grid.json --store=p-{}.db --shard={}/4 --jobs=1 --quiet >/dev/null" ::: 1 2 3 4 2>err
else
  printf '%s\n' 1 2 3 4 | xargs -P 2 -I '{}' sh -c '"$0" sweep grid.json --store=p-{}.db --shard={}/4 --jobs=1 --quiet >/dev/null' "$program" 2>err
fi
run results merge p.db p-1.db p-2.db p-3.db p-4.db
[ $code -eq 0 ] && export_sweep p.db grid got && cmp -s want got
pass_or_fail $? 'the same under parallel or xargs'
head -c 3000 shard-1.db >cut.db
run results merge new.db shard-2.db cut.db
[ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q cut.db err && ! ls | grep -q '^new\.db'
pass_or_fail $? 'a damaged store among them: one line, and no half of a new one'

# ---- a disk that is full ----
(ulimit -f 400 && exec "$program" sweep grid.json --store=full.db --jobs=2 --quiet) >out 2>err
code=$?
[ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'disk is full, or a size limit' err && ! ls | grep -q 'full.db.tasks'
pass_or_fail $? 'a full disk ends it with one line'
run sweep grid.json --store=full.db --quiet
[ $code -eq 0 ] && export_sweep full.db grid got && cmp -s want got && store_is_sound full.db
pass_or_fail $? 'and with room it goes on'

# ---- failing points ----
run sweep failing.json --store=failing.db
[ $code -eq 1 ] && grep -q '3 runs failed' err && grep -q 'point 3 failed: policy.page_tokens: must be a power of two' out && grep -q 'point 2 failed: .*cannot hold one session' out
pass_or_fail $? 'points that cannot be are stored with their reasons, the rest runs'
run sweep failing.json --store=failing.db --failed-ok --quiet --format=tsv
[ $code -eq 0 ] && [ "$(awk -F '\t' '$9 == 1' out | wc -l)" -eq 3 ]
pass_or_fail $? '--failed-ok; failures are in the TSV'
printf '{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [1, 2]}\n' >not-there.jsonl
run sweep failing.json --store=failing.db --failed-ok --retry-failed --quiet --format=tsv
[ $code -eq 0 ] && [ "$(awk -F '\t' '$9 == 1' out | wc -l)" -eq 2 ]
pass_or_fail $? '--retry-failed runs them again: a file that has come is found'

# ---- tables and pictures ----
run results table --store=whole.db grid --where=mode=adaptive --metric=goodput_req_per_s,ttft_s_p90 --format=json
[ $code -eq 0 ] && [ "$(grep -c '"point":' out)" -eq 6 ] && grep -q '"ttft_s_p90.half_95":' out && grep -q '"runs": "' out
pass_or_fail $? 'table: JSON, filtered, with intervals and runs'
run results sweeps --store=two.db --format=tsv
[ $code -eq 0 ] && [ "$(wc -l <out)" -eq 3 ]
pass_or_fail $? 'sweeps: a list'
if command -v gnuplot >/dev/null 2>&1; then
  run results plot --store=whole.db heatmap --x=concurrency --y=hot_rows --where=mode=fixed --out=heat
  [ $code -eq 0 ] && [ -s heat.png ] && [ -s heat.svg ] && [ "$(wc -l <heat.tsv)" -eq 7 ] && grep -q 'policy.hot_rows' heat.svg
  pass_or_fail $? 'plot heatmap'
  run results plot --store=whole.db lines --x=hot_rows --by=mode --where=concurrency=4 --out=lines.svg
  [ $code -eq 0 ] && [ -s lines.svg ] && [ "$(wc -l <lines.tsv)" -eq 7 ] && grep -q 'output throughput, tok/s' lines.svg
  pass_or_fail $? 'plot lines'
  run results plot --store=whole.db pareto --by=mode --out=pareto.svg
  [ $code -eq 0 ] && [ -s pareto.svg ] && [ "$(wc -l <pareto.tsv)" -eq 13 ]
  pass_or_fail $? 'plot pareto'
  # nobody on the front is beaten in both, and everybody off it is
  awk -F '\t' 'NR > 1 { x[NR] = $2; y[NR] = $3; f[NR] = $4; n = NR }
    END { for (i = 2; i <= n; i++) { beaten = 0; for (j = 2; j <= n; j++) beaten += x[j] >= x[i] && y[j] >= y[i] && (x[j] > x[i] || y[j] > y[i]);
      if (f[i] && beaten) bad = 1; if (!f[i] && !beaten) { same = 0; for (j = 2; j <= n; j++) same += f[j] && x[j] == x[i] && y[j] == y[i]; if (!same) bad = 1 } } exit bad }' pareto.tsv
  pass_or_fail $? 'the front is the front'
fi
refuses 1 'tell them apart with --where=mode=' results plot --store=whole.db heatmap --x=concurrency --y=hot_rows --out=no
refuses 1 'did you mean hot_rows' results plot --store=whole.db lines --x=hot_row --out=no
refuses 1 'set as well (--set=mode=fixed): one of the two' sweep grid.json --set=mode=fixed --store=x.db
refuses 2 'did you mean output_throughput_tok_per_s' results table --store=whole.db --metric=output_throughput
refuses 1 "did you mean grid" results table --store=whole.db gird
"$program" run base.json --store=plain.db --quiet >/dev/null 2>&1
refuses 1 'holds no sweeps' results table --store=plain.db
! ls | grep -q '^no\.'
pass_or_fail $? 'nothing is left of pictures that were refused'

# ---- bad input ----
refuses 2 'which design?' sweep --store=x.db
refuses 2 '--store=FILE' sweep grid.json
refuses 2 'did you mean --store?' sweep grid.json --stroe=x.db
refuses 2 'must be I/N' sweep grid.json --store=x.db --shard=2
refuses 2 'nearest: --shard=3/3' sweep grid.json --store=x.db --shard=4/3
refuses 2 'belongs to --engine=slurm' sweep grid.json --store=x.db --wait
refuses 2 'did you mean local' sweep grid.json --store=x.db --engine=locl
refuses 1 'No such file' sweep none.json --store=x.db
refuses 1 'there is no such sweep (nearest: hot-rows)' sweep hot-row --store=x.db
for scenario in "$scenarios"/*.json; do
  refuses 1 ": this is a scenario, not a sweep (nearest: kvloan run $scenario)" sweep "$scenario" --store=x.db
done
for plan in "$scenarios"/plans/*.json; do
  refuses 1 ": this is a plan, not a sweep (nearest: kvloan plan $plan)" sweep "$plan" --list
done
printf '{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1]}\n' >one.jsonl
refuses 1 'one.jsonl: this is a workload, not a sweep (nearest: --set=workload.kind=file --set=workload.file=one.jsonl)' sweep one.jsonl --list
printf '{"scenario": "one.jsonl", "grid": {"mode": ["fixed"]}}' >bad.json
refuses 1 'one.jsonl: this is a workload, not a scenario (nearest: ' sweep bad.json --store=x.db
refuses 1 'agent-sample: this is a scenario, not a sweep (nearest: kvloan run agent-sample)' sweep agent-sample --list
printf '{"scenario": "grid.json", "grid": {"mode": ["fixed"]}}' >bad.json
refuses 1 'grid.json:5: grid: this is a sweep, not a scenario (nearest: kvloan sweep grid.json)' sweep bad.json --list
printf '{"scenario": "base.json",\n "grid": {"policy.hot_row": [1]}}' >bad.json
refuses 1 'bad.json:2: policy.hot_row: unknown key (nearest: policy.hot_rows)' sweep bad.json --store=x.db
printf '{"scenario": "base.json",\n "grid": {"policy.hot_rows": [1' >bad.json
refuses 1 'bad.json:2:' sweep bad.json --store=x.db
printf '{"scenario": "base.json", "list": [{"policy.page_tokens": 48}]}' >bad.json
refuses 1 'bad.json: its one point cannot be run: policy.page_tokens: ' sweep bad.json --store=x.db
refuses 2 'needs OUT and at least one IN' results merge x.db
refuses 1 'missing.db: no such file' results merge x.db missing.db
[ ! -e x.db ]
pass_or_fail $? 'no store is made for what is refused'
run sweep grid.json --list --shard=2/3
[ $code -eq 0 ] && [ "$(wc -l <out)" -eq 9 ] && awk -F '\t' 'NR > 1 && ($1 - 1) % 3 != 1 { bad = 1 } END { exit bad }' out
pass_or_fail $? '--list lists a shard'
"$program" sweep hot-rows --list >out 2>err && "$program" sweep modes --list >>out 2>>err && [ "$(wc -l <out)" -eq 29 ]
pass_or_fail $? 'the sweeps that ship can be read'

finish
