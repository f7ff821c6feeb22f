#!/bin/sh
# Policy and the C references need nothing: no plane, no CUDA, no memory, no I/O, no clock. symbols.sh NM LIBRARY...: what a library leaves
# undefined must be defined in it, be one of the few calls that move bytes, or come from the compiler (assertions, sanitizers, coverage).
set -eu
nm=$1
shift
status=0
names=$(mktemp)
trap 'rm -f "$names"' EXIT
for library in "$@"; do
  "$nm" "$library" >"$names" 2>/dev/null
  foreign=$(awk '
    NF == 3 && $2 ~ /^[TDBRVW]$/ { defined[$3] = 1 }
    NF == 2 && $1 == "U" { used[$2] = 1 }
    END {
      for (name in used)
        if (!(name in defined) && name !~ /^(memcpy|memmove|memset|memcmp|bcmp|strlen|strcmp)$/ && name !~ /^__/ && name !~ /^_GLOBAL_OFFSET_TABLE_$/)
          print name
    }' "$names" | sort)
  grep -q ' T kvl_' "$names" || { echo "$library: no symbols of ours"; status=1; }
  if [ -n "$foreign" ]; then
    printf '%s needs:\n%s\n' "$library" "$foreign"
    status=1
  fi
done
exit $status
