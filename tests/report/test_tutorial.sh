#!/bin/sh
# Every command of the tutorial, in its order, as a reader would type it; TAP. test_tutorial.sh PROGRAM TUTORIAL SCENARIOS
set -u
case $1 in /*) program=$1 ;; *) program=$PWD/$1 ;; esac
case $2 in /*) tutorial=$2 ;; *) tutorial=$PWD/$2 ;; esac
export KVLOAN_SCENARIOS=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir bin
ln -s "$program" bin/kvloan
PATH=$folder/bin:$PATH
count=0
failed=0
blocks=$(awk '/^```sh$/ { n++; on = 1; next } /^```/ { on = 0 } on { print > (n ".block") } END { print n + 0 }' "$tutorial")
[ "$blocks" -ge 8 ] || { echo "not ok 1 - the tutorial has $blocks blocks of commands"; echo 1..1; exit 1; }
plots=yes
command -v gnuplot >/dev/null 2>&1 || plots=
for block in $(seq "$blocks"); do
  count=$((count + 1))
  title=$(head -n 1 "$block.block" | cut -c 1-60)
  if [ -z "$plots" ] && grep -q ' plot ' "$block.block"; then
    echo "ok $count - $title # SKIP no gnuplot"
  elif sh -e "./$block.block" >out 2>err </dev/null; then
    echo "ok $count - $title"
  else
    echo "not ok $count - $title"
    sed 's/^/# /' out err | head -n 20
    failed=1
  fi
done
for made in modes.html adaptive.html sweep.html; do
  count=$((count + 1))
  if tail -n 1 "$made" 2>/dev/null | grep -q '^</html>$'; then
    echo "ok $count - $made is whole"
  else
    echo "not ok $count - $made is whole"
    failed=1
  fi
done
echo "1..$count"
exit $failed
