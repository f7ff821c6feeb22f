#!/bin/sh
# One rule for all commands: 2 when the command line itself is wrong, 1 when it is understood and what it names is not as it must be; one line, nothing on
# stdout, nothing made. TAP. test_usage.sh PROGRAM SCENARIOS
set -u
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1")
export KVLOAN_SCENARIOS=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
"$program" run workload-f --set=workload.requests=4 --store=s.db --quiet >/dev/null 2>&1 || exit 1
echo '{"name": "g", "scenario": "workload-f", "set": {"workload.requests": 4}, "grid": {"limits.batch_max": [1, 2]}}' >g.json
"$program" sweep g.json --store=s.db --quiet >/dev/null 2>&1 || exit 1

# What is wrong with the command line, whatever files there are.
for command in 'run workload-f' 'scenario check workload-f' 'validate workload-f' 'dspark-table workload-f' 'sensitivity workload-f' 'reproduce' 'sweep g.json --store=x.db' \
  'plan --scenario=workload-f --target=ttft_p90_s=1 --store=x.db' 'explain --store=s.db 1' 'report --store=s.db 1'; do
  # shellcheck disable=SC2086
  for set in key =value ''; do
    refuses 2 "--set=$set: must be KEY=VALUE" $command --set=$set
  done
  # shellcheck disable=SC2086
  refuses 2 'there is no option --nonsense' $command --nonsense
done
# What is no option but a member of the command's file, or a scenario key, is not taken for a slip of the pen.
refuses 2 'there is no option --effort; it is a member of the plan file: "effort": ' plan --scenario=workload-f --target=ttft_p90_s=1 --store=x.db --effort=quick
refuses 2 'there is no option --seed; it is a member of the plan file' plan --scenario=workload-f --target=ttft_p90_s=1 --store=x.db --seed=1
refuses 2 'there is no option --grid; it is a member of the sweep file' sweep g.json --store=x.db --grid=1
refuses 2 'there is no option --mode; it is a scenario key: --set=mode=fixed' run workload-f --mode=fixed
refuses 2 'it is a scenario key: --set=policy.hot_rows=VALUE' plan --scenario=workload-f --target=ttft_p90_s=1 --store=x.db --policy.hot_rows
refuses 2 'there is no option --modes; did you mean --' run workload-f --modes=fixed
refuses 2 'not a whole number from 0' run workload-f --seed=x
refuses 2 'not a whole number from 0' run workload-f --seed=18446744073709551616
refuses 2 'not a whole number from 0' sensitivity workload-f --seed=-1
refuses 2 'did you mean host?' run workload-f --plane=hots
refuses 2 'did you mean model?' validate workload-f --plane=modl
refuses 2 'did you mean cuda?' dspark-table workload-f --plane=cdua
refuses 2 'not a number from 1 to 256' run workload-f --threads=0
refuses 2 'not a number from 1 to 1024' sweep g.json --store=x.db --jobs=1x
refuses 2 'did you mean summary?' sweep g.json --store=x.db --keep=sumary
refuses 2 'must be TARGET=NUMBER' plan --scenario=workload-f --store=x.db --target=ttft_p90_s
refuses 2 'must be TARGET=NUMBER' plan --scenario=workload-f --store=x.db --target=ttft_p90_s=5s
refuses 2 'must be TARGET=NUMBER' plan --scenario=workload-f --store=x.db --target=ttft_p90_s=0x10
refuses 2 'must be TARGET=NUMBER' plan --scenario=workload-f --store=x.db --target='ttft_p90_s= 5'
refuses 2 'nearest: ttft_p90_s' plan --scenario=workload-f --store=x.db --target=ttft=5
for price in 0 -1 1.2.3 nan 1e 1e30 ''; do
  refuses 2 "--gpu-hour=$price: must be a price" plan --scenario=workload-f --target=ttft_p90_s=1 --store=x.db --gpu-hour="$price"
done
refuses 2 'it takes no other option' plan --store=s.db --show --set=mode=fixed
# A store's name is a file's, for whatever takes one; SQLite would leave the slash off.
takers=
for command in $("$program" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
  "$program" "$command" --help | grep -q -- --store= && takers="$takers $command"
done
[ "$takers" = ' run reproduce validate sweep sensitivity plan results explain report' ]
pass_or_fail $? "the commands that take a store:$takers"
for command in $takers 'results list' 'results show' 'results compare' 'results export' 'results sweeps' 'results table' 'results plot heatmap'; do
  # shellcheck disable=SC2086
  [ "$command" = results ] || refuses 2 "--store=slash.db/: that is a folder's name" $command --store=slash.db/
done
refuses 2 'did you mean ttft?' explain --store=s.db 1 --for=tfft
refuses 2 'must be KEY=VALUE' results table --store=s.db g --where=batch_max
refuses 2 'did you mean ttft_s_p90?' results table --store=s.db g --metric=ttft_p90

# No driver to update where there is none.
if [ ! -e /proc/driver/nvidia ]; then
  run run workload-f --plane=cuda
  [ $code -eq 1 ] && grep -q 'no NVIDIA driver is loaded\|this build has no CUDA plane' err && ! grep -q 'insufficient' err
  pass_or_fail $? 'without a driver it is said that there is none'
fi

# What the command line names and is not as it must be.
refuses 1 'unknown key (nearest: mode)' run workload-f --set=mod=fixed
refuses 1 'nearest: workload-f' run work
refuses 1 'no run 99' explain --store=s.db 99
refuses 1 'no sweep' results table --store=s.db h
refuses 1 'there is no such plan (nearest: published-256)' plan pub --store=x.db
refuses 1 'g does not change that key' results plot --store=s.db lines g --x=mode --out=x.png

ls >list
[ "$(cat list | tr '\n' ' ')" = 'err g.json list out s.db ' ]
pass_or_fail $? 'nothing was made by any of them'

for words in --help --version 'plan --help' 'report --store=s.db 1'; do
  if [ -c /dev/full ]; then
    # shellcheck disable=SC2086
    "$program" $words >/dev/full 2>err
    [ $? -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'standard output could not be written' err
    pass_or_fail $? "a full standard output is an error: $words"
  fi
done
finish
