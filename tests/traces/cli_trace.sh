#!/bin/sh
# kvloan trace from the outside: exit codes, one-line messages, what is left behind. Speaks TAP.
# usage: cli_trace.sh KVLOAN FOLDER_WITH_GOLDEN_FILES MAKE_RECORDED
set -u
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") golden=$(absolute "$2") make_recorded=$(absolute "$3") # the test runner gives a path relative to the build folder
work=$(mktemp -d "${TMPDIR:-/tmp}/kvl-cli.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# expect CODE TEXT ARGUMENTS...: exit code CODE, TEXT somewhere in what is printed; a failure is one line on stderr and nothing on stdout.
expect() {
  want=$1 text=$2
  shift 2
  run trace "$@"
  [ "$code" -eq "$want" ] && { [ -z "$text" ] || cat out err | grep -qF -e "$text"; } &&
    if [ "$want" -ne 0 ]; then [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ]; else [ ! -s err ]; fi
  pass_or_fail $? "trace $*"
}

holds() { # NAME COMMAND...
  name=$1
  shift
  "$@" >/dev/null 2>&1
  pass_or_fail $? "$name"
}

small="--k=16 --context=1000 --sessions=2 --steps=50 --seed=7"

expect 0 "" gen --out=a.kvt $small
expect 0 "" gen --out=b.kvt $small
holds "the same seed gives the same bytes" cmp a.kvt b.kvt
expect 0 "" gen --out=c.kvt --k=16 --context=1000 --sessions=2 --steps=50 --seed=8
holds "another seed gives others" sh -c '! cmp -s a.kvt c.kvt'
expect 0 ": good: 2 sessions, 100 steps, 1600 rows, contents " check a.kvt
sed 's/.*contents //' out >digest
# After a deliberate change of the generator: kvloan trace gen --out=a.kvt (options above), then check; its last word is the new golden value.
holds "contents are those of $golden/trace-digest.txt" cmp digest "$golden/trace-digest.txt"
expect 0 "" gen --out=m.kvt --model=deepseek-v4.1-flash --context=2000 --sessions=1 --steps=3 --preset=cold-b
expect 0 "deepseek-v4.1-flash" info m.kvt
expect 0 '"origin":"generated: preset cold-b, context 2000 tokens"' info m.kvt --format=json
expect 0 "session	input_tokens" info m.kvt --format=tsv
expect 0 "0	1	2001	0	2001	point	7	3	36	512" cat m.kvt --session=0 --step=1 --limit=1
holds "cat prints a line a selection and one a pool" [ "$(wc -l <out)" -eq 10 ]
holds "the pool is that of layer 20" grep -q "	pool	0	3	20	" out
expect 0 "clairvoyant" curve a.kvt --sizes=1,2
expect 0 '"policy":"lru"' curve a.kvt --format=json
expect 0 "nothing is published for this setting" curve --preset=hot-a --steps=20 --context=8192
expect 0 "published" curve --preset=hot-a --steps=20
expect 0 "nothing is published for this setting: an extrapolation of the score process" curve a.kvt
# What an engine recorded is no model of ours: nor is it set beside what the presets were fitted to.
holds "selections as if recorded" "$make_recorded" a.kvt own.kvt 2
expect 0 "nothing is published for this setting: counted in the recorded selections" curve own.kvt
holds "and the score process is not spoken of" sh -c '! grep -q "score process" out'
expect 0 "" gen --out=asked.kvt --k=2048 --context=60000 --sessions=1 --steps=20
holds "selections as if recorded, at a published setting" "$make_recorded" asked.kvt own.kvt 1
expect 0 "published: GLM-5.1" curve asked.kvt --sizes=1,2
expect 0 "nothing is published for this setting: counted in the recorded selections" curve own.kvt --sizes=1,2
expect 0 "usage: kvloan trace" --help
expect 0 "usage: kvloan trace" gen --help

expect 2 "no command 'generate'; did you mean" generate
expect 2 "there is no option --preste; did you mean --preset?" gen --preste=hot-a
expect 2 "there is no option --seed; did you mean" info a.kvt --seed=3
expect 2 "there is no option -x" gen --k=3 -xy
expect 2 "help takes no value" gen --help=1
expect 2 "--out needs a value" gen --k=4 --out
expect 2 "--out=FILE is missing" gen --k=4
expect 2 "--model=NAME is missing" gen --out=x.kvt
expect 2 "--preset=hott: there is no such preset; did you mean hot-a?" gen --out=x.kvt --k=4 --preset=hott
expect 2 "--steps=0: must be a whole number from 1 to" gen --out=x.kvt --k=4 --steps=0
expect 2 "--k=1.5: must be a whole number" gen --out=x.kvt --k=1.5
expect 2 "--seed=-1: must be a whole number below 2^64" gen --out=x.kvt --k=4 --seed=-1
expect 2 "takes no file; did you mean --out=x.kvt?" gen x.kvt --k=4
expect 2 "one file at a time" info a.kvt b.kvt
expect 2 "which file?" check
expect 2 "--sizes=1,,2: must be" curve a.kvt --sizes=1,,2
expect 2 "a file or --preset, not both" curve a.kvt --preset=hot-a
expect 2 "no such format; did you mean json?" info a.kvt --format=jsn
expect 1 '(nearest: "deepseek-v4.1-flash")' gen --out=x.kvt --model=deepseek-v4.1-flsh
expect 1 "cache 0 would have 900000800 rows; the generator holds up to" gen --out=x.kvt --k=4 --context=900000000
expect 1 "nowhere.kvt: No such file or directory" info nowhere.kvt
expect 1 "is a folder" check .
expect 1 "there is no session 9; the last is 1" cat a.kvt --session=9
expect 1 "there is no step 50 in session 1; the last is 49" cat a.kvt --session=1 --step=50
expect 1 "--cache=5: the trace has caches 0 to 0" curve a.kvt --cache=5
expect 1 "nothing is left to count" curve a.kvt --warm=50
printf 'hello\n' >text
expect 1 "text: not a selection trace" check text
head -c 1000 a.kvt >cut.kvt
expect 1 "cut.kvt: cut off at byte 1000, or never completed: there is no footer" check cut.kvt
expect 1 "cut.kvt: cut off at byte 1000" curve cut.kvt
{ head -c 400 a.kvt; printf 'XXXX'; tail -c +405 a.kvt; } >bad.kvt
expect 1 "its checksum differs" check bad.kvt
expect 1 "/dev/full: cannot be written, at byte 0: No space left on device" gen --out=/dev/full $small
expect 1 "missing/x.kvt: cannot be made: No such file or directory" gen --out=missing/x.kvt $small
holds "nothing half written is left" sh -c '! ls ./*.partial* 2>/dev/null && [ ! -e x.kvt ]'

# Ctrl-C: ends by itself, leaves nothing.
"$program" trace gen --out=long.kvt --model=deepseek-v4.1-flash --sessions=4000 >out 2>err &
pid=$!
tries=0
while [ $tries -lt 100 ] && ! ls long.kvt.partial* >/dev/null 2>&1; do
  sleep 0.1
  tries=$((tries + 1))
done
kill -TERM $pid
wait $pid
code=$?
holds "an interrupted gen says so and fails" sh -c "[ $code -eq 1 ] && grep -q 'interrupted; nothing was kept' err"
holds "an interrupted gen leaves nothing" sh -c '! ls long.kvt* 2>/dev/null'
finish
