#!/bin/sh
# Each scenario in golden/ gives the numbers in golden/NAME.expected: twice, with different numbers of threads, all keys but those measured.
#
#   golden.sh KVLOAN GOLDEN-FOLDER             compares; prints TAP
#   golden.sh KVLOAN GOLDEN-FOLDER --update    writes the expected files anew: look at the difference before it is committed, and say why in the commit
. "$(dirname "$0")/../base/tap.sh"
program=$1 golden=$2 update=${3-}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# summary SCENARIO THREADS FILE: the summary without what depends on the machine
summary() {
  "$program" run "$1" --format=json --threads="$2" >"$work/json" 2>"$work/err" &&
    grep -vE '^  "(wall_s|selections_per_wall_s|peak_memory_bytes)":' "$work/json" >"$3"
}

for scenario in "$golden"/*.json; do
  name=$(basename "$scenario" .json)
  ok=yes
  summary "$scenario" 1 "$work/one" && summary "$scenario" 3 "$work/two" || { ok=no; sed 's/^/# /' "$work/err"; }
  if [ $ok = yes ] && ! cmp -s "$work/one" "$work/two"; then
    ok=no
    echo "# two runs of $name differ:"
    diff "$work/one" "$work/two" | sed 's/^/# /'
  fi
  if [ $ok = yes ] && [ "$update" = --update ]; then
    cp "$work/one" "$golden/$name.expected"
  elif [ $ok = yes ] && ! diff "$golden/$name.expected" "$work/one" >"$work/diff" 2>&1; then
    ok=no
    echo "# $name is not what it was (< stored, > now); if that is meant: golden.sh KVLOAN GOLDEN-FOLDER --update"
    sed 's/^/# /' "$work/diff"
  fi
  [ $ok = yes ]
  pass_or_fail $? "$name"
done
finish
