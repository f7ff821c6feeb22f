#!/bin/sh
# Every header compiles on its own, and twice: headers.sh ROOT COMPILER...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1
shift
. "$here/rules.sh"
cd "$root"
status=0 count=0
for header in $(kvl_files '*.h'); do
  count=$((count + 1))
  if ! printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
    "$@" -std=c17 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror -I. -fsyntax-only -x c -; then
    echo "$header: does not compile on its own, or not twice"
    status=1
  fi
done
[ "$count" -gt 0 ] || { echo "headers.sh: no headers below $root"; exit 1; }
exit $status
