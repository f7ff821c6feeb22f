#!/bin/sh
# A sweep on a real Slurm: controller, node daemon and munge of this machine, started here and ended here. Skipped (77) where they are not installed.
# test_slurm.sh KVLOAN FOLDER-OF-THIS-TEST SCENARIOS
set -u
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") here=$(absolute "$2")
KVLOAN_SCENARIOS=$(absolute "$3")
export KVLOAN_SCENARIOS
# shellcheck source=tests/sweep/slurm_cluster.sh
. "$here/slurm_cluster.sh"
skip() {
  echo "1..0 # SKIP $*"
  exit 77
}
missing=$(slurm_missing)
[ -z "$missing" ] || skip "there is no $missing here (Debian: slurm-wlm munge)"
[ "$(id -u)" -eq 0 ] || skip "a Slurm of our own needs root"
folder=$(mktemp -d)
chmod 755 "$folder"
cp "$here"/*.json "$folder"/ && cd "$folder" || exit 1
clean_up() {
  slurm_stop
  cd / && rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP
slurm_start "$folder/cluster" >start.out 2>&1 || skip "Slurm is installed but does not start: $(tail -n 1 start.out)"

equals_local() { # STORE
  "$program" results export --store="$1" grid --what=sweep >got 2>>err && cmp -s want got
}
# A requeued task would wait two minutes: let it go at once. FOLDER SHARD
hurry() {
  job=$(cat "$1/job.id")
  slurm_wait_for 20 sh -c "squeue -h -r -j $job -o '%K %t %r' | grep -q '^$2 PD BeginTime'" || return
  sleep 2 # within the second in which it was requeued, the node refuses it as revoked
  scontrol update "JobId=${job}_$2" StartTime=now >/dev/null 2>&1
}

run sweep grid.json --store=local.db --quiet
"$program" results export --store=local.db grid --what=sweep >want 2>err
[ $code -eq 0 ] && [ "$(wc -l <want)" -eq 25 ]
pass_or_fail $? 'the sweep on this machine, to compare with'

run sweep grid.json --engine=slurm --shards=3 --wait --store=a.db
[ $code -eq 0 ] && grep -q '3 of 3 shards submitted' err && equals_local a.db && [ "$(grep -c '^ *[0-9]' out)" -eq 12 ]
pass_or_fail $? 'an array of three shards, merged: equal to the local run, byte for byte'

run sweep grid.json --engine=slurm --shards=3 --wait --store=a.db
[ $code -eq 0 ] && ! grep -q submitted err && equals_local a.db
pass_or_fail $? 'complete shards are not submitted again'

# ---- without waiting ----
run sweep grid.json --engine=slurm --shards=2 --store=b.db --sbatch=--nice=5
merge=$(sed -n 's/^merge\tkvloan //p' out) job=$(sed -n 's/^job\t//p' out)
[ $code -eq 0 ] && [ -n "$job" ] && [ ! -e b.db ] && [ -n "$merge" ]
pass_or_fail $? 'without --wait: the job and the command that merges'
run sweep grid.json --engine=slurm --shards=2 --wait --store=b2.db --quiet
slurm_wait_for 30 sh -c "! squeue -h -j $job 2>/dev/null | grep -q ."
eval "\"\$program\" $merge" >out 2>err && equals_local b.db
pass_or_fail $? 'that command gives the local result'

# ---- a task that fails is requeued and goes on ----
twin=$(ls -d a.db.slurm-*-of-3)
broken=c.db.${twin#a.db.}
mkdir "$broken" && echo 'not a store' >"$broken/shard-2.db"
"$program" sweep grid.json --engine=slurm --shards=3 --wait --store=c.db >out 2>err &
waiting=$!
slurm_wait_for 30 grep -q 'not a result store' "$broken/shard-2.log"
status=$?
rm -f "$broken/shard-2.db"
hurry "$broken" 2
wait $waiting && [ $status -eq 0 ] && equals_local c.db
pass_or_fail $? 'an array task that fails is requeued; the result is the same'

# ---- kill -9 of a shard in the middle: the requeued task goes on where it was ----
run sweep grid.json --set=workload.output_tokens=250 --store=local-slow.db --quiet --keep=summary
"$program" results export --store=local-slow.db grid --what=sweep >want 2>err
"$program" sweep grid.json --set=workload.output_tokens=250 --engine=slurm --shards=2 --wait --store=d.db >out 2>err &
waiting=$!
slurm_wait_for 20 sh -c 'ls -d d.db.slurm-*-of-2 && test -s d.db.slurm-*/shard-1.db'
mid=$(ls -d d.db.slurm-*-of-2)
some_done() {
  "$program" results export --store="$mid/shard-1.db" grid --what=sweep 2>/dev/null | grep -q complete
}
slurm_wait_for 20 some_done
shard=$(ps -e -o pid= -o args= | awk -v store="$folder/$mid/shard-1.db" 'index($0, "sweep") && index($0, store) && !/awk/ { print $1; exit }')
[ -n "$shard" ] && kill -9 "$shard"
before=$("$program" results export --store="$mid/shard-1.db" grid --what=sweep 2>/dev/null | grep -c complete)
hurry "$mid" 1
wait $waiting && equals_local d.db && [ "$before" -ge 1 ]
pass_or_fail $? "a shard killed with -9 after $before runs goes on where it was"

# ---- what cannot work says so ----
run sweep grid.json --engine=slurm --shards=24 --wait --store=e.db
[ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'nearest: --shards=20' err && ! ls -d e.db* >/dev/null 2>&1
pass_or_fail $? 'more shards than MaxArraySize allows: one line with the nearest'
run sweep grid.json --engine=slurm --shards=2 --wait --store=e.db --sbatch=--partition=none --quiet
[ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'sbatch refused the job: .*partition' err && [ ! -e e.db ]
pass_or_fail $? 'what sbatch refuses is told in one line'
run sweep failing.json --engine=slurm --shards=2 --wait --store=f.db
[ $code -eq 1 ] && grep -q '3 runs failed' err && grep -q 'point 3 failed' out
pass_or_fail $? 'failing points are results, not failed tasks'
PATH=$folder run sweep grid.json --engine=slurm --store=g.db
[ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'there is no scontrol here' err && [ ! -e g.db ]
pass_or_fail $? 'no Slurm: one line'

finish
