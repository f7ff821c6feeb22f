#!/bin/sh
# Every option that a command takes stands in its --help, from which the manual page and completion are made. lint_help.sh ROOT
set -u
cd "$1/sim" || exit 1
fail=0
files=0
for file in cmd_*.c results_sweep.c; do
  options=$(grep -oE '\{"[a-z-]+", (required|no|optional)_argument|KVL_OPTION\("[a-z-]+"' "$file" | sed -E 's/[^"]*"([a-z-]+)".*/\1/' | sort -u | grep -v '^help$')
  [ -n "$options" ] && files=$((files + 1))
  for option in $options; do
    grep -qE -- "^ *\".*--$option([^a-z-]|\$)" "$file" || { echo "sim/$file: --$option is not in its help"; fail=1; }
  done
done
[ $files -ge 14 ] || { echo "only $files files with options were found"; fail=1; }
exit $fail
