#!/bin/sh
# kvloan report, explain, help and completion from outside; TAP. test_telling.sh PROGRAM SCENARIOS PAGE_CHECK
set -u
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1")
export KVLOAN_SCENARIOS=$2
check=$(absolute "$3")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# Anybody's names: what a scenario is called goes into titles, legends and commands.
cat >hostile.json <<'END'
{
  "name": "</title><script>alert(1)</script> \"'&",
  "note": "<img src=x onerror=alert(1)> & 'more'",
  "model": "deepseek-v4.1-flash",
  "costs": "deepseek-v4.1-flash.b300",
  "node": {"hardware": "b300", "prefill_gpus": 4, "decode_gpus": 2, "kv_pool_bytes": 100000000, "host_pool_bytes": 2000000000},
  "policy": {"hot_rows": 1024},
  "workload": {"kind": "closed", "concurrency": 16, "requests": 24, "input_tokens": 8000, "output_tokens": 30},
  "selection": {"source": "preset", "preset": "hot-a"}
}
END
for set in mode=resident mode=fixed mode=adaptive; do
  "$program" run hostile.json --quiet --set=$set --store="s '&.db" >/dev/null 2>&1 || exit 1
done
"$program" run hostile.json --quiet --set=selection.source=none --set=limits.simulated_s_max=0.5 --store="s '&.db" >/dev/null 2>&1

run report --store="s '&.db" 3 --out=one.html
[ $code -eq 0 ] && [ ! -s out ] && "$check" one.html 2>>err && grep -q '&lt;script&gt;alert(1)&lt;/script&gt; &quot;&#39;&amp;, adaptive</h1>' one.html &&
  ! grep -q '<script' one.html && ! grep -q '<img' one.html
pass_or_fail $? 'report: one run, whatever it is called'
if command -v gnuplot >/dev/null 2>&1; then
  pictures=$(grep -c '<figure>' one.html)
  [ "$pictures" -ge 5 ] && [ "$(grep -c '<div class="wide"><svg' one.html)" -eq "$pictures" ] && [ "$(grep -c '<div class="narrow"><svg' one.html)" -eq "$pictures" ]
  pass_or_fail $? 'report: each picture stands there for a desk and for a phone'
  for unit in 'simulated time, s' 'time to first token, s' 'tokens a second of one request' 'selected rows, %' 'share, %' 'layer that selects'; do
    grep -qF "$unit" one.html || echo "no $unit" >>err
  done
  [ ! -s err ]
  pass_or_fail $? 'report: axes have units'
  grep -c '<figcaption>.\{60,\}' one.html | grep -qx "$pictures"
  pass_or_fail $? 'report: every picture says what to see'
fi
cp one.html again.html
run report --store="s '&.db" 3 --out=one.html
cmp -s one.html again.html
pass_or_fail $? 'report: twice the same bytes'
run report --store="s '&.db" 3
[ $code -eq 0 ] && [ ! -s err ] && cmp -s out one.html
pass_or_fail $? 'report: on standard output'
run report --store="s '&.db" 1 2 3 --out=three.html
[ $code -eq 0 ] && "$check" three.html 2>>err && grep -q 'C: adaptive' three.html && grep -q '<h1>3 runs of ' three.html && ! grep -q '<script' three.html
pass_or_fail $? 'report: a comparison'
run report --store="s '&.db" 2 4 --title='<b>&' --out=title.html
[ $code -eq 0 ] && "$check" title.html 2>>err && grep -q '<h1>&lt;b&gt;&amp;</h1>' title.html
pass_or_fail $? 'report: a title'
"$program" run hostile.json --quiet --set=limits.simulated_s_max=0.000001 --store=early.db >/dev/null 2>&1
refuses 1 'interrupted and ended before its first decode step: there is nothing to explain' explain --store=early.db 1
run report --store=early.db 1 --out=early.html
[ $code -eq 0 ] && "$check" early.html 2>>err && grep -q 'ended before its first decode step' early.html
pass_or_fail $? 'report: a run without a decode step'
for page in three.html one.html; do
  grep -q 'The scenario of the first run, complete\|The scenario, complete' $page && grep -q '&quot;kv_pool_bytes&quot;' $page || echo "$page has no scenario" >>err
done
[ ! -s err ]
pass_or_fail $? 'report: pages have the scenario'
run report --store="s '&.db" 4 --out=four.html
[ $code -eq 0 ] && "$check" four.html 2>>err && grep -q 'This run is interrupted' four.html
pass_or_fail $? 'report: a run that is not whole says so'
(PATH=/nowhere "$program" report --store="s '&.db" 3 --out=bare.html >out 2>err) && "$check" bare.html && grep -q 'There are no pictures' bare.html && grep -q 'gnuplot is not installed' err
pass_or_fail $? 'report: without gnuplot there is a page without pictures'
commands=$(sed -n '/<h2>To repeat it/,/<\/pre>/p' one.html | sed -n '/^kvloan/p;s/.*<pre>//' | grep '^kvloan' | sed "s/&#39;/'/g;s/&gt;/>/g;s/&amp;/\\&/g;s/&quot;/\"/g")
mkdir -p bin
ln -sf "$program" bin/kvloan
echo "$commands" | sed 's/^kvloan run .*/& --format=tsv --quiet/' >repeat.sh
(PATH=$folder/bin:$PATH sh -e repeat.sh >out 2>err) && "$program" results export --store="s '&.db" 3 --format=tsv 2>>err | grep '^output_throughput' >was && grep '^output_throughput' out | cmp -s - was
pass_or_fail $? 'report: its commands repeat the run'
mkdir full
chmod 500 full
if [ "$(id -u)" -ne 0 ]; then
  refuses 1 'full/x.html: cannot write' report --store="s '&.db" 3 --out=full/x.html
fi
mkfifo pipe
refuses 1 'pipe: cannot write: not a plain file' report --store="s '&.db" 3 --out=pipe
refuses 1 'nowhere/x.html: cannot write' report --store="s '&.db" 3 --out=nowhere/x.html
! ls ./*.part >/dev/null 2>&1
pass_or_fail $? 'report: nothing half written is left'
refuses 2 'which store?' report 3
refuses 2 'which runs?' report --store="s '&.db"
refuses 2 'did you mean --title?' report --store="s '&.db" --titel=x 1
refuses 1 'no run 99' report --store="s '&.db" 99 --out=x.html

run report --store="s '&.db" 3 --explain --out=next.html
[ $code -eq 0 ] && "$check" next.html 2>>err && grep -q '<h2>What to turn next</h2>' next.html && grep -q 'a host link that costs nothing' next.html
pass_or_fail $? 'report --explain: what to turn next'

# Times that hang on stand-ins: each page says so among its answers, a comparison once for all that it is true of.
for costs in deepseek-v4.1-flash.b300 deepseek-v4.1-flash.h200 deepseek-v4.1-flash.h200; do
  "$program" run hostile.json --quiet --set=costs=$costs --set=workload.requests=4 --store=c.db >/dev/null 2>&1 || exit 1
done
echo '{"name": "c", "scenario": "hostile.json", "set": {"costs": "deepseek-v4.1-flash.h200", "workload.requests": 4}, "grid": {"mode": ["fixed", "adaptive"]}}' >c.json
"$program" sweep c.json --store=cs.db --quiet >/dev/null 2>&1 </dev/null || exit 1
noted() { # PATTERN TIMES OPTIONS...
  pattern=$1 times=$2
  shift 2
  run report "$@" --out=c.html
  [ $code -eq 0 ] && "$check" c.html 2>>err && [ "$(grep -c 'Stand-ins, neither measured' c.html)" -eq "$times" ] && { [ "$times" -eq 0 ] || grep -q "class=\"note\">$pattern" c.html; }
}
noted 'Stand-ins, neither measured' 1 --store=c.db 2 && noted 'Stand-ins, neither measured' 1 --store=c.db 2 --explain && noted '' 0 --store=c.db 1
pass_or_fail $? 'report: a page about one run notes stand-ins'
noted 'B, C: Stand-ins, neither measured' 1 --store=c.db 1 2 3
pass_or_fail $? 'report: a comparison notes stand-ins, once'
noted '.*: Stand-ins, neither measured' 1 --store=cs.db --sweep=latest
pass_or_fail $? 'report: a sweep notes stand-ins'

# A sweep: its name is anybody's text as well.
cat >sweep.json <<'END'
{
  "name": "<b>sweep</b> & co",
  "note": "<script>alert(2)</script>",
  "scenario": "hostile.json",
  "grid": {"mode": ["fixed", "adaptive"], "policy.hot_rows": [512, 1024, 2048]},
  "repeats": 1
}
END
"$program" sweep sweep.json --store=w.db >/dev/null 2>err </dev/null
run report --store=w.db --sweep=latest --out=sweep.html
[ $code -eq 0 ] && "$check" sweep.html 2>>err && grep -q '<h1>&lt;b&gt;sweep&lt;/b&gt; &amp; co: 6 points</h1>' sweep.html && ! grep -q '<script\|<b>sweep' sweep.html &&
  grep -q '6 of 6 runs complete' sweep.html && [ "$(grep -c '<td>[0-9]*</td></tr>$' sweep.html)" -eq 6 ]
pass_or_fail $? 'report: a sweep, every point with its run'
refuses 2 'runs, a sweep or a plan: one of them' report --store=w.db --sweep=latest 1
refuses 1 'no sweep' report --store="s '&.db" --sweep=latest

run explain --store="s '&.db" 3 --knobs=2 --requests=12
[ $code -eq 0 ] && [ ! -s err ] && grep -q '^Time of the decode GPUs' out && grep -q '^Who holds the HBM' out && grep -q '^The host links carried' out &&
  grep -q '^Where layers find their rows' out && grep -q 'a host link that costs nothing' out && grep -q '^\(Turn\|No setting\|Leave\)' out
pass_or_fail $? 'explain: a table'
run explain --store="s '&.db" 3 --knobs=0 --format=tsv
[ $code -eq 0 ] && awk -F '\t' 'NF != 5 { bad = 1 } END { exit bad || NR < 20 }' out && ! grep -q '^bound' out
pass_or_fail $? 'explain: TSV has five cells in each row; nothing is run with --knobs=0'
run explain --store="s '&.db" 3 --knobs=1 --requests=12 --format=json
[ $code -eq 0 ] && grep -q '"best_setting": ' out && grep -q '"binds": "' out
pass_or_fail $? 'explain: JSON'
mv out first
run explain --store="s '&.db" 3 --knobs=1 --requests=12 --format=json --threads=1
cmp -s out first
pass_or_fail $? 'explain: one thread or two, the same answer'
run explain --store="s '&.db" 3 --knobs=1 --requests=2
[ $code -eq 0 ] && grep -q '^No setting is named, nor hardware: 2 requests do not press' out && grep -q -- '--requests=[0-9]* is the least' out && ! grep -q '<- best' out
pass_or_fail $? 'explain: too few requests name no setting, but the least number that would'
if script -qec true /dev/null >/dev/null 2>&1; then
  script -qec "'$program' explain --store=\"s '&.db\" 3 --knobs=1 --requests=12" /dev/null >out 2>err </dev/null
  tr '\r' '\n' <out | grep -a 're-runs done' | head -n 1 | grep -qa '0 of [1-9][0-9]* re-runs done$' && grep -qa '^Time of the decode GPUs' out
  pass_or_fail $? 'explain: on a terminal the first line says how many runs it will make'
fi
# One of each: no "1 requests", but for units in a column of their own. Run, sweep, merge, explain, report, check.
one='--set=workload.requests=1 --set=workload.concurrency=1 --set=node.decode_gpus=1 --set=node.prefill_gpus=1'
printf '{"scenario": "hostile.json", "set": {"workload.requests": 1, "workload.concurrency": 1, "node.decode_gpus": 1}, "list": [{"mode": "fixed"}]}\n' >lone.json
# shellcheck disable=SC2086
{
  "$program" run hostile.json $one --store=lone.db
  "$program" scenario check hostile.json $one
  "$program" explain --store=lone.db 1 --knobs=1
  "$program" explain --store="s '&.db" 3 --knobs=1 --requests=1
  "$program" report --store=lone.db 1
  "$program" sweep lone.json --store=lone.db
  "$program" sweep lone.json --store=lone.db
  "$program" report --store=lone.db --sweep=latest
  "$program" results merge both.db lone.db
} >out 2>&1 </dev/null
grep -q '1 request does not press' out && grep -q '1 of 1 run is in lone.db already' out && grep -q '1 run brought in\|2 runs brought in' out &&
  ! grep -vE '^  (node|workload)[.]' out | grep -oE '(^|[^0-9.,])1 (request|run|session|step|point|GPU|decode GPU|setting|trial|seed|repeat|result|layer|selection|thread|core)s[^a-z_]' >err
pass_or_fail $? 'one of each is told in the singular'
refuses 2 'did you mean throughput?' explain --store="s '&.db" 3 --for=throughputs
refuses 2 'not a whole number' explain --store="s '&.db" 3 --knobs=many
refuses 2 'which run?' explain --store="s '&.db"
refuses 1 'no such file' explain --store=nothing.db 1
refuses 1 'nearest: policy.hot_rows' explain --store="s '&.db" 3 --set=policy.hotrows=1 --knobs=0

printf '{"timestamp": %d, "input_length": 3000, "output_length": 20, "hash_ids": []}\n' 0 100 200 300 >moves.jsonl
run run hostile.json --quiet --set=workload.kind=file --set=workload.file=moves.jsonl --set=name=moving --store=m.db
mv moves.jsonl moved.jsonl
refuses 1 '--set=workload.file=PATH' explain --store=m.db 1 --knobs=1
run explain --store=m.db 1 --knobs=1 --set=workload.file=moved.jsonl
[ $code -eq 0 ] && grep -q 'run again' out
pass_or_fail $? 'explain: a workload file that has moved is named anew'

# Help: of every command, the manual page from the same words, and every option that it lists is known.
run help
grep -q '^  report ' out && [ $code -eq 0 ]
pass_or_fail $? 'help: lists the commands'
run help explain
mv out first
run explain --help
cmp -s out first && [ $code -eq 0 ]
pass_or_fail $? 'help COMMAND is COMMAND --help'
refuses 2 "did you mean 'report'?" help reprot
"$program" --help | awk '/^  / { print $1 }' >commands
for command in $(cat commands); do
  run "$command" --help
  [ $code -eq 0 ] && [ ! -s err ] && head -n 1 out | grep -q "^usage: kvloan $command"
  pass_or_fail $? "$command --help"
  bad=
  subcommand=$(sed -n "s/^usage: kvloan $command \([a-z][a-z]*\) .*/\1/p" out | head -n 1)
  for option in $(sed -n 's/^  *\(--[a-z-]*\).*/\1/p' out | sort -u); do
    "$program" "$command" $subcommand "$option=" >said 2>&1 </dev/null
    grep -q "there is no option $option" said && bad="$bad $option"
  done
  case $command in trace | help | completion) bad= ;; esac # trace: its subcommands have options of their own; the others read words
  [ -z "$bad" ]
  pass_or_fail $? "$command: the options of its help are there$bad"
done
run help --man
for command in $(cat commands); do
  grep -q "^\.Ss kvloan $command\$" out || echo "no $command" >>err
done
[ $code -eq 0 ] && [ ! -s err ]
pass_or_fail $? 'help --man: every command is in the manual page'
for shell in bash zsh fish; do
  run completion $shell
  [ $code -eq 0 ] && [ ! -s err ] && grep -q 'completion --words' out
  pass_or_fail $? "completion $shell"
  if command -v $shell >/dev/null 2>&1; then
    case $shell in
    fish) fish --no-execute out 2>err ;;
    *) $shell -n out 2>err ;;
    esac
    pass_or_fail $? "completion $shell: the script is one"
  fi
done
refuses 2 'did you mean bash?' completion bsh
refuses 2 'for which shell?' completion

# A trace replayed at another history than it was recorded at.
"$program" trace gen --model=deepseek-v4.1-flash --context=4000 --sessions=2 --steps=30 --out=t.kvt >/dev/null 2>&1
run run hostile.json --quiet --set=selection.source=trace --set=selection.file=t.kvt
[ $code -eq 0 ] && grep -q 'recorded at histories of 4000 tokens and is replayed at 8000' err
pass_or_fail $? 'run: a trace of another history is noted'
run run hostile.json --quiet --set=selection.source=trace --set=selection.file=t.kvt --set=workload.input_tokens=4100
[ $code -eq 0 ] && ! grep -q 'recorded at histories' err
pass_or_fail $? 'run: a trace of this history is not'
run scenario check hostile.json --set=selection.source=trace --set=selection.file=t.kvt
[ $code -eq 0 ] && grep -q 'recorded at histories of 4000' err && grep -q 'binds first' out
pass_or_fail $? 'scenario check: the same note; which stage binds'
finish
