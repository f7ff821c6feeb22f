#!/bin/sh
# tests/kernels/build_device.sh compiles every kernel and every part of the C reference, once, and links each into check_kernels. build_device.sh ROOT.
# The compilers are stand-ins that write down what they are asked for, so no nvcc is needed.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cat >"$work/bin/nvcc" <<'END'
#!/bin/sh
case $1 in
--dryrun) printf '#$ TOP=%s \n' "$ASKED.top" >&2 ;;
*) echo "$*" >>"$ASKED.nvcc" ;;
esac
END
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "$*" >>"$ASKED.cc"\n' >"$work/bin/cc"
chmod +x "$work/bin/nvcc" "$work/bin/cc"
ASKED=$work/asked PATH=$work/bin:$PATH CJSON='' sh tests/kernels/build_device.sh "$work/out"
status=0
same() { # WHAT: $work/there and $work/found
  for list in there found; do
    sort "$work/$list" -o "$work/$list"
  done
  diff "$work/there" "$work/found" || { echo "tests/kernels/build_device.sh: $1: there is (<), it has (>)"; status=1; }
}
for kind in .cu _ref.c; do
  find kernels -name "*$kind" >"$work/there"
  cat "$work/asked.nvcc" "$work/asked.cc" | tr ' ' '\n' | grep "^kernels/.*$kind\$" >"$work/found" || true
  same "$kind compiled"
  sed 's|^kernels/||' "$work/there" >"$work/names" && mv "$work/names" "$work/there"
  grep -- '-o [^ ]*/check_kernels ' "$work/asked.cc" | tr ' ' '\n' | sed -n "s|.*/\([a-z_]*$kind\)\.o\$|\1|p" | grep -v '^floor' >"$work/found" || true
  same "$kind linked into check_kernels"
done
exit $status
