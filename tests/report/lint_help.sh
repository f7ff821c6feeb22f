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
  # --format with --json and --tsv for short is said once: rows and help together, from cmd_options.h
  grep -q 'KVL_OPTION_FORMATS(' "$file" && { grep -q 'KVL_OPTION_FORMATS_HELP' "$file" || { echo "sim/$file: --json and --tsv are not in its help"; fail=1; }; }
  grep -nE 'KVL_OPTION\("(json|tsv)"' "$file" && { echo "sim/$file: has rows of its own for --json and --tsv, not KVL_OPTION_FORMATS"; fail=1; }
done
[ $files -ge 14 ] || { echo "only $files files with options were found"; fail=1; }
exit $fail
