#!/bin/sh
# Every command of the tutorial, in its order, as a reader would type it; TAP. test_tutorial.sh PROGRAM TUTORIAL SCENARIOS
set -u
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") tutorial=$(absolute "$2")
export KVLOAN_SCENARIOS=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir bin
ln -s "$program" bin/kvloan
PATH=$folder/bin:$PATH
blocks=$(awk '/^```sh$/ { n++; on = 1; next } /^```/ { on = 0 } on { print > (n ".block") } END { print n + 0 }' "$tutorial")
[ "$blocks" -ge 8 ]
pass_or_fail $? "the tutorial has blocks of commands"
plots=yes
command -v gnuplot >/dev/null 2>&1 || plots=
for block in $(seq "$blocks"); do
  title=$(head -n 1 "$block.block" | cut -c 1-60)
  if [ -z "$plots" ] && grep -q ' plot ' "$block.block"; then
    pass_or_fail 0 "$title # SKIP no gnuplot"
  else
    sh -e "./$block.block" >out 2>err </dev/null
    pass_or_fail $? "$title"
    if grep -q '^kvloan explain .*--requests=' "$block.block"; then
      grep -q '^Turn ' out
      pass_or_fail $? 'its re-runs are long enough to name what to turn'
    fi
  fi
done
for made in modes.html adaptive.html sweep.html; do
  tail -n 1 "$made" 2>/dev/null | grep -q '^</html>$'
  pass_or_fail $? "$made is whole"
done
finish
