#!/bin/sh
# Every recorded log of the folder replays in the model plane with the identical decisions. Arguments: kvloan, the folder. Prints TAP.
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") folder=$(absolute "$2")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
for log in "$folder"/*.log; do
  run replay "$log" --tsv
  [ "$code" -eq 0 ] && [ ! -s err ] && awk -F '\t' '$1 == "steps" && $2 > 20 { s = 1 } NR > 1 && $2 != $3 { exit 1 } END { exit !s }' out
  pass_or_fail $? "${log##*/}"
done
finish
