#!/bin/sh
# What results/hardware/h200-kernels.md says of today is what the raw figures beside it say: every line of both tables, in order. kernel_tables.sh ROOT.
set -eu
folder=$1/results/hardware
table=$(mktemp)
page=$(mktemp)
trap 'rm -f "$table" "$page"' EXIT
sh "$folder/h200-kernels.sh" "$folder" | grep '^|' >"$table"
sed -n '/^## Today/,/^## The first/p' "$folder/h200-kernels.md" | grep '^|' >"$page"
[ "$(wc -l <"$table")" -ge 30 ] || { echo "h200-kernels.sh: only $(wc -l <"$table") lines"; exit 1; }
diff "$table" "$page" || { echo "results/hardware/h200-kernels.md: Today is not what h200-kernels.sh makes of the raw figures (<)"; exit 1; }
