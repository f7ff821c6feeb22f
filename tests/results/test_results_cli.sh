#!/bin/sh
# `kvloan results` from outside: what it prints, what it says about bad input, its exit codes.
# test_results_cli.sh MAKE_STORE PROGRAM [WORD]: PROGRAM WORD takes what follows `kvloan results`.
set -u
. "$(dirname "$0")/../base/tap.sh"
make_store=$(absolute "$1")
program=$(absolute "$2")
word=${3-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

run() { # ARGUMENTS... ; leaves out, err, code
  "$program" ${word:+"$word"} "$@" >out 2>err
  code=$?
}

"$make_store" s.db sweep || exit 1
("$make_store" s.db incomplete) 2>/dev/null

run list --store=s.db
[ "$code" -eq 0 ] && [ ! -s err ] && [ "$(wc -l <out)" -eq 17 ] && grep -q '^16  unfinished  fixed  .* incomplete ' out
pass_or_fail $? 'list: one row a run, the killed one is incomplete'
run list --store=s.db --format=tsv
awk -F '\t' 'NF != 9 { bad = 1 } END { exit bad || NR != 17 }' out && [ "$code" -eq 0 ]
pass_or_fail $? 'list: TSV has nine cells in each row'
run list --store s.db --format json
[ "$code" -eq 0 ] && grep -q '"id": 16, "name": "unfinished", .*"status": "incomplete", .*"output_throughput_tok_per_s": null' out
pass_or_fail $? 'list: JSON'

run show --store=s.db 15
[ "$code" -eq 0 ] && grep -q '^mode  *adaptive$' out && grep -q '^Throughput ' out && grep -q '^samples  *900$' out
pass_or_fail $? 'show: a run'
run show --store=s.db latest:mode=fixed --format=tsv
[ "$code" -eq 0 ] && grep -q "^run.id	14	$" out && grep -q '^selections_by_tier.hot	1000000	$' out
pass_or_fail $? 'show: TSV, latest of a mode'
run show --store=s.db unfinished
[ "$code" -eq 0 ] && grep -q 'No summary: the run is incomplete' out
pass_or_fail $? 'show: an incomplete run'

for what in requests samples points moves; do
  run export --store=s.db 15 --what=$what
  rows=$(wc -l <out)
  cp out "$what.tsv"
  awk -F '\t' 'NR == 1 { n = NF } NF != n { bad = 1 } END { exit bad }' out && [ "$code" -eq 0 ] && [ ! -s err ] && [ "$rows" -gt 8 ]
  pass_or_fail $? "export: $what as TSV, $rows lines"
  run export --store=s.db 15 --what=$what --format=json
  [ "$code" -eq 0 ] && [ "$(grep -c '^  {' out)" -eq $((rows - 1)) ]
  pass_or_fail $? "export: $what as JSON, as many rows"
done
[ "$(head -1 requests.tsv | tr '\t' '\n' | grep -c _ns)" -eq 6 ] && [ "$(wc -l <samples.tsv)" -eq 901 ]
pass_or_fail $? 'export: six times of a request, every sample'
run export --store=s.db 15 --what=scenario
[ "$code" -eq 0 ] && grep -q '^{"name":"published","mode":{"value":"adaptive".*}$' out
pass_or_fail $? 'export: the scenario as it was run'
run export --store=s.db 15 --format=json
[ "$code" -eq 0 ] && grep -q '"selections_by_tier": {"scratch": 0' out
pass_or_fail $? 'export: the summary is the default'
run export --store=s.db unfinished --what=requests
[ "$code" -eq 0 ] && grep -q 'incomplete: its records may be a part only' err && [ "$(wc -l <out)" -eq 65 ]
pass_or_fail $? 'export: says that records of an incomplete run may be a part'

run compare --store=s.db latest:mode=resident latest:mode=fixed latest
[ "$code" -eq 0 ] && grep -q '+96.0 %' out && grep -q 'policy.hot_rows  *0  |  4096  |  4096$' out &&
  grep -q '^  mode  *"resident"  |  "fixed"  |  "adaptive"$' out
pass_or_fail $? 'compare: three modes, with what differs in their scenarios'
run compare --store=s.db 15 15 12 --format=json
[ "$code" -eq 0 ] && grep -q '"key": "workload.concurrency", "values": \[256, 128\]' out
pass_or_fail $? 'compare: JSON; a run named twice counts once'
run compare --store=s.db 14 15 --format=tsv
[ "$code" -eq 0 ] && grep -q '^requests_completed		false	true	256	256	0$' out
pass_or_fail $? 'compare: TSV'

for n in 1 2 3 4; do "$make_store" "from-$n.db" sweep; done
for n in 1 2 3 4; do
  { "$program" ${word:+"$word"} merge into.db "from-$n.db" >"out-$n" 2>"err-$n" || echo "$n" >>failed; } &
done
wait
run list --store=into.db
[ ! -e failed ] && [ "$code" -eq 0 ] && [ "$(wc -l <out)" -eq 61 ]
pass_or_fail $? 'merge: four at once into one new store, and nobody loses a run'
("$make_store" cut.db incomplete) 2>/dev/null
rm cut.db
[ -e cut.db-wal ] && run merge cut.db s.db && run list --store=cut.db
[ "$code" -eq 0 ] && [ "$(wc -l <out)" -eq 16 ]
pass_or_fail $? 'merge: the log of a store that is gone is no part of the new one'

refuses 1 'no such file' list --store=missing.db
refuses 1 'not a result store' list --store=requests.tsv
refuses 1 'nearest: published' show --store=s.db publishd
refuses 1 'runs 1 to 16' show --store=s.db 99
refuses 1 'no run has mode adaptve; nearest: adaptive' show --store=s.db latest:mode=adaptve
refuses 1 'has no summary: it is incomplete' export --store=s.db unfinished
refuses 1 'compare needs two' compare --store=s.db 15
refuses 1 'has no summary' compare --store=s.db 15 16
refuses 2 'did you mean list' lst --store=s.db
refuses 2 'which store' list
refuses 2 'needs one run' show --store=s.db
refuses 2 'needs one run' show --store=s.db 1 2
refuses 2 'takes no runs' list --store=s.db 1
refuses 2 'did you mean requests' export --store=s.db 15 --what=reqests
refuses 2 'writes tsv or json' export --store=s.db 15 --format=table
refuses 2 'did you mean json' list --store=s.db --format=jso
refuses 2 '--what belongs to export' list --store=s.db --what=requests
refuses 2 '--out belongs to plot' list --store=s.db --out=x
refuses 2 'which picture' plot --store=s.db --out=x
refuses 2 'where to' plot --store=s.db modes
refuses 2 'did you mean timeline' plot --store=s.db time-line 15 --out=x
refuses 2 'draws one run' plot --store=s.db timeline 14 15 --out=x
refuses 2 'draws 1 to 8 runs' plot --store=s.db distributions all --out=x
refuses 1 'nearest: x.svg' plot --store=s.db modes --out=x.pdf
refuses 2 'did you mean --' list --store=s.db --nonsense
printf 'only a text\n' >text.db
refuses 1 'not a result store' list --store=text.db
mkdir folder
refuses 1 'is a folder' list --store=folder
[ ! -e missing.db ]
pass_or_fail $? 'a store that is not there is not made by looking at it'

run --help
[ "$code" -eq 0 ] && grep -q 'usage: kvloan results' out
pass_or_fail $? 'help'
run
[ "$code" -eq 2 ] && grep -q 'usage: kvloan results' err
pass_or_fail $? 'no arguments: usage'
PATH=/nonexistent run plot --store=s.db modes --out=picture.png
[ "$code" -eq 1 ] && grep -q 'not installed' err && [ -s picture.tsv ] && [ ! -e picture.png ]
pass_or_fail $? 'plot without gnuplot: one line, and the numbers are kept'
if command -v gnuplot >/dev/null; then
  run plot --store=s.db modes --out=picture
  [ "$code" -eq 0 ] && [ -s picture.png ] && [ -s picture.svg ] && [ ! -s err ] && [ ! -s out ]
  pass_or_fail $? 'plot: modes, both formats'
  run plot --store=s.db timeline latest --out=picture.svg
  [ "$code" -eq 0 ] && grep -q '</svg>' picture.svg
  pass_or_fail $? 'plot: timeline of the latest run'
  run plot --store=s.db distributions 13 14 15 --out=picture.svg
  [ "$code" -eq 0 ] && grep -q '>15: adaptive<' picture.svg
  pass_or_fail $? 'plot: distributions of three runs'
else
  echo "ok $((count + 1)) - plot # SKIP no gnuplot"
  count=$((count + 1))
fi
[ -z "$(find . -name '*.part')" ]
pass_or_fail $? 'no temporary file is left'
finish
