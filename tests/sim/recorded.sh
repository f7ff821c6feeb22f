#!/bin/sh
# Every recorded log of the folder replays in the model plane with the identical decisions. Arguments: kvloan, the folder. Prints TAP.
program=$1 folder=$2
n=0 failed=0
for log in "$folder"/*.log; do
  n=$((n + 1))
  name=${log##*/}
  if out=$("$program" replay "$log" --tsv 2>&1) && printf '%s\n' "$out" | awk -F '\t' '$1 == "steps" && $2 > 20 { s = 1 } NR > 1 && $2 != $3 { exit 1 } END { exit !s }'; then
    echo "ok $n - $name"
  else
    echo "not ok $n - $name"
    printf '%s\n' "$out" | sed 's/^/# /'
    failed=1
  fi
done
echo "1..$n"
exit $failed
