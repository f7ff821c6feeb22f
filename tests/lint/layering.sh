#!/bin/sh
# Which folder may include what: layering.sh ROOT, or --rules. The table layering.txt lists what is allowed; everything else in quotes is reported,
# and so are system headers where only one place may see them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
table=$(mktemp)
lines=$(mktemp)
left=$(mktemp)
trap 'rm -f "$table" "$lines" "$left"' EXIT
cat >"$table" <<'END'
sqlite;[^:]*;results/store[^:]*|tests/[^:]*;#include <sqlite3.h>;only the store sees SQLite
cuda;[^:]*;backend/[a-z_]*cuda[a-z_]*\.c|kernels/[a-z_]*\.cu|tests/[^:]*;#include <cuda;only the CUDA plane and kernels see CUDA
policy-system;backend/(admission|bitset|frame_pool|lending|page_|residency|revocation)[^:]*;-;#include <(stdio|stdlib|time|unistd|math|pthread|fcntl|signal|sys/.*)\.h>;policy has no I/O, clock or allocation
reference-system;kernels/[a-z_]*\.[ch];-;#include <(stdio|stdlib|time|unistd|pthread|fcntl|signal|sys/.*)\.h>;a reference has no I/O, clock or allocation
END
if [ "$1" = --rules ]; then
  cut -d ';' -f 1 "$here/layering.txt" "$table"
  exit
fi
. "$here/rules.sh"
cd "$1"
{ kvl_files '*.[ch]'; kvl_files '*.cu'; } | tr '\n' '\0' | xargs -0 grep -nE '^ *# *include' /dev/null | sed -E 's/# *include */#include /' >"$lines" || true
[ -s "$lines" ] || { echo "layering.sh: no includes below $1"; exit 1; }
status=0
kvl_apply "$table" "$lines" || status=1
grep -v '#include <' "$lines" >"$left" || true
while IFS=';' read -r name scope except allowed reason; do
  hits=$(kvl_rule "$name" "$scope" "$except" . "$reason" <"$left" | grep -vE "$allowed" || true)
  if [ -n "$hits" ]; then
    printf '%s\n' "$hits"
    status=1
  fi
done <"$here/layering.txt"
exit $status
