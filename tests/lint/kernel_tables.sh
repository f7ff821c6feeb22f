#!/bin/sh
# What results/hardware/h200-kernels.md says of today and h200-plane.md of steps is what the raw figures beside them say: every line of their tables, in order. kernel_tables.sh ROOT.
set -eu
folder=$1/results/hardware
table=$(mktemp)
page=$(mktemp)
trap 'rm -f "$table" "$page"' EXIT
same() { # PAGE FROM TO LINES SCRIPT: its tables between two headings are what the script prints, so many lines at least
  sh "$folder/$5" "$folder" | grep '^|' >"$table"
  sed -n "/^## $2/,/^## $3/p" "$folder/$1" | grep '^|' >"$page"
  [ "$(wc -l <"$table")" -ge "$4" ] || { echo "$5: only $(wc -l <"$table") lines"; exit 1; }
  diff "$table" "$page" || { echo "results/hardware/$1: $2 is not what $5 makes of the raw figures (<)"; exit 1; }
}
same h200-kernels.md 'Today' 'The first' 30 h200-kernels.sh
same h200-plane.md 'What the adaptive path costs' 'Prefetch' 25 h200-plane-table.sh
