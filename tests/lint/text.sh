#!/bin/sh
# Every text file of the project: no white space at line ends, no path of one machine, no registry's host name. text.sh ROOT, or --rules.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
table=$(mktemp)
lines=$(mktemp)
trap 'rm -f "$table" "$lines"' EXIT
tab=$(printf '\t')
cr=$(printf '\r')
written='[^:]*\.(c|h|cu|inc|sh|awk|json|build|md|txt)|[^:.]*' # by us; samples and corpora stay as they came
corpus='tests/[^:]*corpus/[^:]*'
cat >"$table" <<END
trailing-space;$written;$corpus;[ $tab]$;white space at the end of the line
tab;$written;[^:]*\.sh|$corpus;$tab;indent with spaces
carriage-return;$written;$corpus;$cr$;lines end in LF
machine-path;[^:]*;-;(^|[^A-Za-z0-9_.~-])/(work|root|home|Users|mnt|nfs)/;a path of one machine
own-tap;tests/[^:]*[.]sh;tests/base/tap[.]sh|tests/lint/[^:]*;echo "not ok ;pass_or_fail of tests/base/tap.sh says so
registry-host;[^:]*;-;(pypi|files[.]pythonhosted|registry[.]npmjs|crates|rubygems|proxy[.]golang|deb[.]debian|archive[.]ubuntu|hub[.]docker|repo[.]anaconda)[.](org|com|io);a registry's host name
END
if [ "$1" = --rules ]; then
  cut -d ';' -f 1 "$table"
  exit
fi
. "$here/rules.sh"
cd "$1"
kvl_files '*' | tr '\n' '\0' | xargs -0 grep -InE '.' /dev/null >"$lines" || true
[ -s "$lines" ] || { echo "text.sh: no files below $1"; exit 1; }
kvl_apply "$table" "$lines"
