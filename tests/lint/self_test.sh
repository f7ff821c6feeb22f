#!/bin/sh
# The lint scripts must find what is planted, where it is planted, and nothing in a clean tree. Every rule has a plant.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
expected=$tree.expected reported=$tree.reported difference=$tree.difference
trap 'rm -rf "$tree" "$expected" "$reported" "$difference"' EXIT
status=0
planted=

clean_tree()
{
  rm -rf "${tree:?}"/*
  mkdir -p "$tree/backend/base" "$tree/kernels" "$tree/traces" "$tree/results" "$tree/sim" "$tree/tests"
  printf '#ifndef A\n#define A\n#include "backend/base/ids.h"\n#endif\n/* printf("exit"); strcpy() // */\nint f(void); // rand()\n' >"$tree/kernels/clean.h"
  printf 'extern const char t[sizeof "system(1) \\" gets(2)"];\n' >"$tree/backend/base/ids.h"
  printf 'int main(void)\n{\n  printf("%%s", "a tool");\n  exit(0);\n}\n' >"$tree/traces/tool.c"
}

# plant SCRIPT RULE PATH TEXT: for `reap`, which runs the script over all its plants at once. One path a plant.
plant()
{
  mkdir -p "$(dirname "$tree/$3")"
  printf '%b\n' "$4" >"$tree/$3"
  planted="$planted $1:$2"
  printf '%s: [%s]\n' "$3" "$2" >>"$tree/expected"
}

# reap SCRIPT: every plant is reported, and nothing else; then the tree is clean again.
reap()
{
  sort -o "$tree/expected" "$tree/expected"
  mv "$tree/expected" "$expected"
  sh "$here/$1" "$tree" >"$reported" && { echo "$1 is content with planted violations"; status=1; }
  sed -E 's/^([^:]*):[0-9]+: (\[[a-z-]*\]).*/\1: \2/' "$reported" | sort | diff "$expected" - >"$difference" ||
    { echo "$1: planted (<) and reported (>) differ"; cat "$difference" "$reported"; status=1; }
  clean_tree
}

clean_tree
for script in banned.sh text.sh layering.sh; do
  sh "$here/$script" "$tree" || { echo "$script complains about a clean tree"; status=1; }
  if sh "$here/$script" "$tree/tests" >/dev/null; then
    echo "$script is content with no files at all"
    status=1
  fi
done
sh "$here/headers.sh" "$tree" cc || { echo "headers.sh complains about a clean tree"; status=1; }
printf 'struct twice { int x; };\n' >"$tree/sim/twice.h"
if sh "$here/headers.sh" "$tree" cc >/dev/null 2>&1; then
  echo "headers.sh does not notice a header without a guard"
  status=1
fi

plant banned.sh unbounded sim/a.c 'void f(char *a) { strcpy(a, "x"); }'
plant banned.sh hidden-state tests/a.c '/* why */ int f(void) { return rand(); }'
plant banned.sh strtok sim/strtok.c 'char *f(char *a) { return strtok(a, ","); }'
plant banned.sh unchecked-number traces/a.c 'int f(char *a) { return atoi(a); }'
plant banned.sh shell sim/shell.c 'int f(void) { return system("ls"); }'
plant banned.sh library-prints results/a.c 'void f(void) { printf("x"); }'
plant banned.sh library-exits traces/exits.c 'void f(void) { exit(1); }'
plant banned.sh program-exits sim/engine.c 'void f(void) { exit(1); }'
plant banned.sh wall-clock kernels/a.c 'long f(void) { return time(0); }'
plant banned.sh policy-double backend/lending.c 'static double x;'
plant banned.sh policy-allocates backend/page_table.c 'void *f(void) { return malloc(1); }'
plant banned.sh reference-allocates kernels/a_ref.c 'void *f(void) { return malloc(1); }'
plant banned.sh typedef-struct sim/typedef.h 'typedef struct a { int x; } a;'
plant banned.sh half-done-copy backend/copy.c 'void f(void *a, void *b) { cudaMemcpy(a, b, 1, 0); }'
reap banned.sh

plant text.sh trailing-space scenarios.json '{} '
plant text.sh tab sim/tab.c '\tint x;'
plant text.sh carriage-return sim/a.c 'int x;\r'
plant text.sh machine-path tests/a.sh 'cat /ro''ot/secret'
plant text.sh registry-host README.md 'from https://py''pi.org/simple'
plant text.sh own-tap tests/b.sh 'echo "not ok 1 - a"'
reap text.sh

plant layering.sh kernels-include kernels/a.c '#include "backend/residency.h"'
plant layering.sh base-include backend/base/a.c '#include "backend/residency.h"'
plant layering.sh policy-include backend/residency.c '  #  include "backend/plane.h"'
plant layering.sh plane-include backend/plane_host.c '#include "sim/engine.h"'
plant layering.sh traces-include traces/a.c '#include "kernels/resolve.h"'
plant layering.sh results-include results/a.c '#include "traces/trace.h"'
plant layering.sh sim-include sim/a.c '#include "tests/base/tap.h"'
plant layering.sh sqlite sim/sqlite.c '#include <sqlite3.h>'
plant layering.sh cuda sim/cuda.c '#include <cuda_runtime_api.h>'
plant layering.sh policy-system backend/admission.c '#include <time.h>'
plant layering.sh reference-system kernels/system.c '#include <stdio.h>'
reap layering.sh

sh "$here/pictures.sh" "$tree" || { echo "pictures.sh complains about a clean tree"; status=1; }
plant pictures.sh picture-unused docs/a.png ''
plant pictures.sh picture-missing docs/a.md '![not there](b.png) ![there](../shown.png)'
touch "$tree/shown.png"
reap pictures.sh

printf 'void *malloc(unsigned long n);\nvoid *kvl_f(void);\nvoid *kvl_f(void) { return malloc(1); }\n' >"$tree/a.c"
printf 'int kvl_g(void);\nint kvl_g(void) { return 1; }\n' >"$tree/b.c"
(cd "$tree" && cc -c a.c b.c && ar rcs a.a a.o && ar rcs b.a b.o) || status=1
sh "$here/symbols.sh" nm "$tree/b.a" || { echo "symbols.sh complains about a library that needs nothing"; status=1; }
case $(sh "$here/symbols.sh" nm "$tree/b.a" "$tree/a.a") in
*malloc*) ;;
*) echo "symbols.sh does not notice malloc"; status=1 ;;
esac

for script in banned.sh text.sh layering.sh pictures.sh; do
  for rule in $(sh "$here/$script" --rules); do
    case " $planted " in
    *" $script:$rule "*) ;;
    *) echo "rule [$rule] of $script has no plant"; status=1 ;;
    esac
  done
done
exit $status
