#!/bin/sh
# The scripts of results/hardware, with a program that does as kvloan does until it fails: a usage without arguments, OUT is made, the first failure ends all with its
# line, and nothing half written is left. TAP. test_hardware_scripts.sh FOLDER SCENARIOS
set -u
. "$(dirname "$0")/../base/tap.sh"
scripts=$(absolute "$1") scenarios=$(absolute "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cat >fake <<'END'
#!/bin/sh
n=$(($(cat calls) + 1))
echo $n >calls
[ $n -lt "$FAIL_AT" ] || { [ -z "${SIGNAL-}" ] || kill -"$SIGNAL" $PPID; echo 'fake: no GPU here' >&2; exit 1; }
format=tsv
for word; do
  case $word in
  --record=*) cp log "${word#*=}" ;;
  --format=json) format=json ;;
  --floor) floor=1 ;;
  esac
done
echo '10 selected rows read back through their addresses, 0 differ' >&2
case $format in
json) echo '{"output_throughput_tok_per_s": 5, "steps": 1, "compute": 3, "scratch": 1, "host": 1}' ;;
tsv)
  [ -z "${floor-}" ] || printf 'floor\tsteps\t\t3\n'
  [ "$1" != validate ] || printf 'device\tkernel.resolve.mean\tus\t9\ndevice\tkernel.resolve.launches\t\t8\ntimes\tcompute.count\t\t1\n'
  printf 'key\tvalue\tunit\noutput_throughput_tok_per_s\t5\ttok/s\nsimulated_s\t1\ts\n'
  ;;
esac
END
chmod +x fake
# Two GPUs that number their steps alike, ended in another order than begun; a step of more than 2^31 ns.
cat >log <<'END'
kvloan-log 1
step 0 1 join 1 revoked 0 serial 7 ef46db3751d8e999 items 44 ef46db3751d8e999 tokens 5000,1,1 maps 0 ef46db3751d8e999
done 9 9 step 0 1 times 1,2,9 stall 1,2,3,4,5,6 lanes 1 rows 7,1 prefetch 0
copy 0 pages tag 0 bytes 9 moves 5 ef46db3751d8e999
copy 0 write_back tag 9223372036854775809 bytes 720 moves 3 ef46db3751d8e999
done 10 10 copy 0 9223372036854775809
done 10 11 copy 0 0
step 0 2 join 0 revoked 4 serial 0 ef46db3751d8e999 items 44 ef46db3751d8e999 tokens 5000,1,1 maps 0 ef46db3751d8e999
step 1 2 join 0 revoked 0 serial 0 ef46db3751d8e999 items 43 ef46db3751d8e999 tokens 5000,1,1 maps 0 ef46db3751d8e999
done 5000 4000 step 1 2 times 10,20,4000 stall 100 lanes 1 rows 0 prefetch 0
done 5000000000 5000000000 step 0 2 times 10,20,5000000000 stall 4000000000,2,3,4,5,6,7 lanes 1 rows 7,1 prefetch 0
step 0 3 join 0 revoked 0 serial 0 ef46db3751d8e999 items 44 ef46db3751d8e999 tokens 5000,1,1 maps 0 ef46db3751d8e999
end interrupted 10 ef46db3751d8e999
END

sh_run() { # FAIL_AT SCRIPT ARGUMENTS...: out, err, $code
  echo 0 >calls
  FAIL_AT=$1
  export FAIL_AT
  script=$2
  shift 2
  sh "$scripts/$script" "$@" >out 2>err </dev/null
  code=$?
}
one_line() { # CODE WORDS
  [ "$code" -eq "$1" ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$2" err
}

for path in "$scripts"/*.sh; do
  script=${path##*/}
  [ "$script" != measure.sh ] || continue
  sh_run 1 "$script"
  one_line 2 "usage: $script " && [ ! -s out ]
  pass_or_fail $? "$script: without arguments, its usage"
done
for words in 'h200-forecast.sh measure ./fake S OUT' 'h200-pair.sh record ./fake S OUT' 'h200-plane.sh ./fake S OUT modle' 'h200-headline.sh record ./fake S OUT' 'h200-headline.sh record ./fake S OUT 1m'; do
  # shellcheck disable=SC2086
  sh_run 1 $words
  one_line 2 'usage: ' && [ ! -e OUT ]
  pass_or_fail $? "$words: its usage"
done

# Each script that runs the program: a failure at the first run, then at the third. What is left is whole: $whole files.
fails() { # WHOLE SCRIPT BEFORE AFTER: before KVLOAN, after OUT
  whole=$1 script=$2 before=$3 after=$4
  for at in 1 3; do
    rm -rf OUT
    # shellcheck disable=SC2086
    sh_run $at "$script" $before ./fake "$scenarios" OUT/made $after
    one_line 1 'fake: no GPU here' && [ "$(cat calls)" -eq $at ] && if [ $at -eq 1 ]; then [ ! -e OUT/made ]; else [ "$(find OUT -type f | wc -l)" -eq "$whole" ]; fi &&
      ! find OUT -type f -size 0 | grep -q .
    pass_or_fail $? "$script $before $after: run $at fails"
  done
  # shellcheck disable=SC2086
  sh_run 99 "$script" $before ./nowhere "$scenarios" OUT $after
  one_line 1 './nowhere: there is no such program'
  pass_or_fail $? "$script $before: no program"
  # shellcheck disable=SC2086
  sh_run 99 "$script" $before ./fake nowhere OUT $after
  one_line 1 'nowhere: is no folder of scenarios'
  pass_or_fail $? "$script $before: no scenarios"
}
fails 0 h200-plane.sh '' ''
fails 0 h200-plane.sh '' model
fails 0 h200-pair.sh measure ''
fails 0 h200-pair.sh model ''
fails 6 h200-forecast.sh record ''
fails 2 h200-headline.sh record 9999

# And when nothing fails, all of it.
whole() { # FILES SCRIPT ARGUMENTS...
  files=$1
  shift
  sh_run 9999 "$@"
  [ $code -eq 0 ] && [ ! -s err ] && [ "$(cd OUT && find . -type f | sed 's|^\./||' | LC_ALL=C sort | tr '\n' ' ')" = "$files" ]
  pass_or_fail $? "$1: whole"
}
rm -rf OUT
whole 'floor.tsv steps.tsv validate.jsonl ' h200-plane.sh ./fake "$scenarios" OUT
! grep -q '"validation":}' OUT/validate.jsonl && [ "$(grep -c '[)2]	steps		3$' OUT/floor.tsv)" -eq 3 ]
pass_or_fail $? 'h200-plane.sh: every validation has its text, every floor its rows'
rm -rf OUT
whole 'checked.txt measured.tsv ' h200-pair.sh measure ./fake "$scenarios" OUT
rm -rf OUT
sh_run 9999 h200-forecast.sh record ./fake "$scenarios" OUT
[ $code -eq 0 ] && [ ! -s out ] && [ ! -s err ] && [ "$(find OUT -type f | wc -l)" -eq $((3 * $(grep -c '^[a-z]' "$scripts/h200-forecast.txt"))) ]
pass_or_fail $? 'h200-forecast.sh record: three files a run'
rm OUT/batch-16.json
sh_run 9999 h200-forecast.sh compare ./fake "$scenarios" OUT
one_line 1 'batch-16: has no record in OUT' && [ ! -s out ] && [ ! -e OUT/rows.tsv ]
pass_or_fail $? 'h200-forecast.sh compare: a run without a record'
rm -rf OUT
sh_run 9999 h200-headline.sh compare ./fake "$scenarios" OUT
one_line 1 'nothing was recorded' && [ ! -e OUT ]
pass_or_fail $? 'h200-headline.sh compare: nothing was recorded'
whole 'logs.tar runs.tsv ' h200-headline.sh record ./fake "$scenarios" OUT 9999
cp OUT/runs.tsv before
sh_run 4 h200-headline.sh compare ./fake "$scenarios" OUT
one_line 1 'fake: no GPU here' && cmp -s before OUT/runs.tsv
pass_or_fail $? 'h200-headline.sh compare: a forecast fails and the records are as they were'
sh_run 9999 h200-headline.sh compare ./fake "$scenarios" OUT
[ $code -eq 0 ] && [ "$(cut -f 18,19 out | sort -u | tr '\t\n' ', ')" = '1,5000.000 steps_of_44,step_of_44_ms ' ]
pass_or_fail $? 'h200-headline.sh compare: the step of 44, not that of the other GPU with its number'
cp out all
grep '^8 *off *resident\|^128 *off *adaptive' "$scripts/h200-headline.txt" >some.txt
RUNS=some.txt
export RUNS
sh_run 9999 h200-headline.sh compare ./fake "$scenarios" OUT
unset RUNS
[ $code -eq 0 ] && [ "$(cut -f 1 out | tr '\n' ' ')" = 'run 8-off-resident 128-off-adaptive ' ] && [ "$(sed -n 3p out | cut -f 2-7)" = "5.0	5.0	5.0	0.00		" ] &&
  [ "$(sed -n 2p out)" = "$(grep '^8-off-resident' all)" ]
pass_or_fail $? 'h200-headline.sh compare: of some of the runs, those alone, and no gain over one that is not among them'
sh_run 9999 h200-headline.sh compare ./fake "$scenarios" OUT
[ $code -eq 0 ] && cmp -s all out
pass_or_fail $? 'h200-headline.sh compare: of all of them again'

# A signal: as at a failure, and the exit says which. A shell that began with INT ignored cannot trap it; env gives it back.
mkdir tmp
signal() { # SIGNAL CODE
  rm -rf OUT
  SIGNAL=$1
  export SIGNAL
  echo 0 >calls
  FAIL_AT=1 TMPDIR=$PWD/tmp $default sh "$scripts/h200-plane.sh" ./fake "$scenarios" OUT >out 2>err </dev/null
  code=$?
  unset SIGNAL
  [ $code -eq "$2" ] && [ "$(cat calls)" -eq 1 ] && [ ! -e OUT ] && [ -z "$(ls -A tmp)" ]
  pass_or_fail $? "$1: exit $2, nothing is left"
}
default=
env --default-signal=INT,HUP true 2>/dev/null && default='env --default-signal=INT,HUP'
signal HUP 129
signal INT 130
signal TERM 143

# One reader of decision logs.
(. "$scripts/measure.sh" && step_durations log <log) >out 2>err
tr '\t' ' ' >want <<'END'
0 1 44 1 7 0 0 0 1 2 9 1 2 3 4 5 6 7
1 2 43 0 0 0 0 0 10 20 4000 100 0 0 0 0 0 0
0 2 44 0 0 4 5 1 10 20 5000000000 4000000000 2 3 4 5 6 7
END
tr '\t' ' ' <out | cmp -s - want && [ ! -s err ]
pass_or_fail $? 'step_durations: a line a step that ended'
[ "$(cd "$scripts" && grep -l '"done"' -- *.sh)" = measure.sh ]
pass_or_fail $? 'no script reads the lines of a decision log itself'
for rows in '44 rounds h200-plane-rounds.tsv' '75 give-back h200-give-back.tsv'; do
  # shellcheck disable=SC2086
  set -- $rows
  sh_run 1 h200-steps.sh "$1" "$scripts/logs/$2"/*.gz
  [ $code -eq 0 ] && [ ! -s err ] && cmp -s out "$scripts/$3"
  pass_or_fail $? "h200-steps.sh: the logs in $2 make $3"
done
sh_run 1 h200-steps.sh 44 log
[ $code -eq 0 ] && grep -qx 'log.1.1.1.1.5000000.0.5000000.0.4000000.0.0.0.0.0.0.0' out
pass_or_fail $? 'h200-steps.sh: a step longer than 2^31 ns'
sh_run 1 h200-steps.sh 44 fake nowhere.log
one_line 1 'nowhere.log: cannot be read' && [ ! -s out ]
pass_or_fail $? 'h200-steps.sh: a log that is not there'
sh_run 1 h200-steps.sh many fake
one_line 2 'usage: h200-steps.sh REQUESTS LOG...' && [ ! -s out ]
pass_or_fail $? 'h200-steps.sh: no number of requests'
sh_run 1 h200-steps.sh 44 fake
one_line 1 'fake: is no decision log' && [ ! -s out ]
pass_or_fail $? 'h200-steps.sh: a file that is no log'
log=logs/rounds/all-after-1.log.gz
head -c 9000 "$scripts/$log" >cut.log.gz
sh_run 1 h200-steps.sh 44 "$scripts/$log" cut.log.gz
one_line 1 'cut.log.gz: cannot be unpacked' && [ ! -s out ]
pass_or_fail $? 'h200-steps.sh: a log that was cut short'

# What is not a whole log, to each script that measures: one line, and no figure of it.
cp log whole.log
broken() { # REASON WHAT: of the file `log`
  sh_run 1 h200-steps.sh 44 whole.log log
  one_line 1 "h200-steps.sh: log$1" && [ ! -s out ]
  pass_or_fail $? "h200-steps.sh: $2"
}
broken_to_all() { # REASON WHAT
  broken "$1" "$2"
  for words in 'h200-plane.sh ' 'h200-plane.sh  model' 'h200-pair.sh measure' 'h200-pair.sh model'; do
    script=${words%% *} before=${words#* } after=''
    case $before in ' model') before='' after=model ;; esac
    rm -rf OUT
    # shellcheck disable=SC2086
    sh_run 99 "$script" $before ./fake "$scenarios" OUT $after
    one_line 1 ": its log$1" && [ ! -s out ] && [ ! -e OUT ]
    pass_or_fail $? "$words: $2"
  done
  rm -rf OUT
  RUNS=some.txt
  export RUNS
  sh_run 9999 h200-headline.sh record ./fake "$scenarios" OUT 9999
  cp OUT/runs.tsv before
  sh_run 9999 h200-headline.sh compare ./fake "$scenarios" OUT
  unset RUNS
  one_line 1 ": its log$1" && [ ! -s out ] && cmp -s before OUT/runs.tsv
  pass_or_fail $? "h200-headline.sh compare: $2"
}
cut=': the log is cut short'
head -c $(($(grep -b '^done 5000000000 ' whole.log | cut -d : -f 1) + 80)) whole.log >log
[ "$(tail -n 1 log)" = 'done 5000000000 5000000000 step 0 2 times 10,20,5000000000 stall 4000000000,2,3,' ]
pass_or_fail $? 'a log that is cut in a list of numbers'
broken_to_all ':11: no number after "stall"' 'cut in a list of numbers'
sed '$d' whole.log >log
broken "$cut" 'no end'
printf %s "$(cat whole.log)" >log
broken "$cut" 'an end without a line end'
head -n 1 whole.log >log
broken "$cut" 'its first line alone'
sed '/step/d' whole.log >log
broken ': no step is in the log' 'no steps'
for word in times stall rows items join serial revoked moves; do
  sed "s/ $word [0-9,]*//" whole.log >log
  sh_run 1 h200-steps.sh 44 log
  one_line 1 ": no number after \"$word\"" && grep -q '^h200-steps.sh: log:[0-9]' err && [ ! -s out ]
  pass_or_fail $? "h200-steps.sh: lines without $word"
done
finish
