#!/bin/sh
# The manual page is one that man and mandoc read without a warning, where they are. lint_man.sh kvloan.1
set -u
page=$1
fail=0
grep -q '^\.Sh NAME$' "$page" || { echo "$page: no NAME"; fail=1; }
for command in run scenario trace results explain report; do
  grep -q "^\\.Ss kvloan $command\$" "$page" || { echo "$page: no kvloan $command"; fail=1; }
done
checked=
if command -v groff >/dev/null 2>&1; then
  said=$(groff -man -mdoc -ww -Tutf8 -z "$page" 2>&1)
  [ -z "$said" ] || { echo "groff: $said"; fail=1; }
  checked=yes
fi
if command -v mandoc >/dev/null 2>&1; then
  said=$(mandoc -Tlint -Wwarning "$page" 2>&1 | grep -v 'mandoc.db')
  [ -z "$said" ] || { echo "mandoc: $said"; fail=1; }
  checked=yes
fi
[ -n "$checked" ] || [ $fail -ne 0 ] || exit 77
exit $fail
