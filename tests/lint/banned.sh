#!/bin/sh
# Calls and types that this project does not use, by folder: banned.sh ROOT, or banned.sh --rules for the rules' names.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" = --rules ]; then
  cut -d ';' -f 1 "$here/banned.txt"
  exit
fi
. "$here/rules.sh"
cd "$1"
lines=$(mktemp)
table=$(mktemp)
trap 'rm -f "$lines" "$table"' EXIT
{ kvl_files '*.[ch]'; kvl_files '*.cu'; } | tr '\n' '\0' | xargs -0 awk -f "$here/strip.awk" >"$lines"
[ -s "$lines" ] || { echo "banned.sh: no sources below $1"; exit 1; }
# A file with a main() among a library's is a tool that makes one of its tables: a program, which may print. PROGRAMS in the table stands for them.
programs=$(grep -E '^[^:]*:[0-9]+:int main\(' "$lines" | cut -d : -f 1 | sed 's/\./\\\\./g' | paste -s -d '|' -)
sed "s~PROGRAMS~${programs:--}~" "$here/banned.txt" >"$table"
kvl_apply "$table" "$lines"
