#!/bin/sh
# kvloan calibrate: the whole command on the device without a GPU (real copies, real gathers, real look-ups in ordinary memory; only the times mean
# nothing), what it says where there is no GPU, what it leaves when it fails or is killed, and that scenarios take its descriptors. Prints TAP.
#
#   test_calibrate_cli.sh KVLOAN KVLOAN_FAKE
. "$(dirname "$0")/../base/tap.sh"
program=$1 fake=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
check() { # NAME, with the outcome of the last command
  pass_or_fail $? "$1"
}
one_line() { [ "$(wc -l <"$1")" -eq 1 ]; }

"$fake" calibrate --quick --host-gib=0.125 --from=h200 --out="$work/node.json" >"$work/table" 2>"$work/err"
[ $? -eq 0 ] && one_line "$work/err" && grep -q "^$work/node.json: written" "$work/err" && grep -q 'residuals:' "$work/table" && ! ls "$work" | grep -q "\.part$"
check "measures, prints a table, writes a descriptor, says nothing else in a pipe"

"$fake" calibrate --refit="$work/node.json" --format=tsv >"$work/tsv" 2>"$work/err" && awk -F'\t' '
  NR == 1 { split($0, name, "\t"); if (name[12] != "median_us") exit 1; next }
  { seen[$1]++; beside[$1 " " $2]++; if (NF != 14 || $13 > $12 || $12 > $14 || $11 < 1) bad = 1 }
  $1 == "copy" { way[$3]++ } $1 == "gather" { order[$4]++; rows[$6]++; size[$7]++ } $1 == "resolve" { misses[$6]++ }
  END {
    for (k in seen) kinds++; for (k in rows) counts++; for (k in size) sizes++; for (k in misses) m++
    exit bad || kinds != 12 || way[0] < 3 || way[1] < 3 || order[0] < 6 || order[1] < 6 || counts < 3 || sizes < 2 || m < 2 ||
      !beside["gather copy_in"] || !beside["gather copy_out"] || !beside["gather hbm"] || !beside["copy copy_out"] || !beside["copy pages"] || !beside["pages copy_out"] || !beside["pages nothing"]
  }' "$work/tsv"
check "every kind of point is there, with a spread in order"

"$fake" calibrate --refit="$work/node.json" --format=json >"$work/again.json" 2>/dev/null && cmp -s "$work/node.json" "$work/again.json"
check "a descriptor's points, fitted anew, give the same descriptor, byte for byte"

"$program" calibrate --refit="$work/node.json" --out="$work/other.json" --name=other >/dev/null 2>&1 && grep -q '"name": "other"' "$work/other.json"
check "refitting needs no GPU"

small="--set=workload.requests=4 --set=workload.concurrency=4 --set=workload.input_tokens=20000 --set=workload.cached_tokens=19000 --set=workload.output_tokens=20"
"$program" scenario check published-256 --set=node.hardware="$work/node.json" --format=tsv >"$work/check" 2>"$work/err" &&
  grep -q '^hardware.link.gather_us.[1-9][0-9]* points' "$work/check" && grep -q '^hardware.tflop_per_s.1979' "$work/check" &&
  grep -q '^hardware.link.copy_gb_per_s.*measured by kvloan calibrate' "$work/check"
check "a scenario takes it by file, and what it does not say from the one it names"

# The first descriptor that calibrate ever wrote (one H200, 2026-11-29): it has no point of pages, its fetches were summed up otherwise.
gzip -dc "$(dirname "$0")/old/h200.measured-2026-11-29.json.gz" >"$work/old.json" &&
  "$program" scenario check published-256 --set=node.hardware="$work/old.json" --format=tsv >"$work/check" 2>"$work/err" && grep -q '^hardware.link.gather_us.[1-9][0-9]* points' "$work/check" &&
  "$program" run published-256 --quiet --set=node.hardware="$work/old.json" $small >"$work/out" 2>"$work/err"
check "an old descriptor is still read"
"$program" calibrate --refit="$work/old.json" --out="$work/refitted.json" >/dev/null 2>"$work/err" && "$program" scenario check published-256 --set=node.hardware="$work/refitted.json" >/dev/null 2>&1
check "and its points are fitted by the rules of today"

half="$(dirname "$0")/../../scenarios/h200/half-revoked.json"
"$program" scenario check "$half" --set=node.hardware="$work/node.json" >"$work/check" 2>"$work/err" && ! grep -q EXTRAPOLATION "$work/check" &&
  "$program" scenario check "$half" --set=node.hardware=b200 >"$work/check" 2>"$work/err" && grep -q EXTRAPOLATION "$work/check" &&
  "$program" scenario json "$half" --set=node.hardware="$work/node.json" | grep -q '"part":"h200"'
check "whatever its name is, it suits the cost profiles of the part that it is from"

mkdir -p "$work/scenarios/hardware" && cp "$work/node.json" "$work/scenarios/hardware/" &&
  KVLOAN_SCENARIOS="$work/scenarios" "$program" run published-256 $small --set=node.hardware=node --format=json >"$work/one" 2>"$work/err" &&
  KVLOAN_SCENARIOS="$work/scenarios" "$program" run published-256 $small --set=node.hardware=node --threads=1 --format=json >"$work/two" 2>"$work/err" &&
  grep -v '"\(wall_s\|selections_per_wall_s\|peak_memory_bytes\)"' "$work/one" >"$work/a" && grep -v '"\(wall_s\|selections_per_wall_s\|peak_memory_bytes\)"' "$work/two" >"$work/b" &&
  cmp -s "$work/a" "$work/b" && grep -q '"fetched"\|fetch' "$work/a"
check "and by name; two runs with it are one"

# The raw points are not part of the scenario: its canonical text is the same without them.
sed '/"calibration": {/,$d' "$work/node.json" | sed '$ s/,$//' >"$work/bare.json" && echo '}' >>"$work/bare.json" &&
  "$program" scenario check published-256 --set=node.hardware="$work/bare.json" --format=tsv | grep '^hardware' | cut -f 1-3 >"$work/a" &&
  "$program" scenario check published-256 --set=node.hardware="$work/node.json" --format=tsv | grep '^hardware' | cut -f 1-3 >"$work/b" && [ -s "$work/a" ] &&
  cmp -s "$work/a" "$work/b"
check "the raw points change nothing"

"$program" run published-256 $small --set=node.hardware=h200 --format=json >/dev/null 2>&1
check "old descriptors are read as ever"

# No GPU here, or no CUDA in this build: one line, nothing written. Where there is a GPU, --gpu=1000 is missing.
"$program" calibrate --gpu=1000 --out="$work/none.json" >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && one_line "$work/err" && [ ! -s "$work/out" ] && [ ! -e "$work/none.json" ] && grep -q 'GPU' "$work/err"
check "without the GPU: one line, exit 1"
"$fake" calibrate --gpu=8 --out="$work/none.json" >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && [ "$(cat "$work/err")" = 'GPU 8 is asked for (--gpu), this machine has 8, numbered from 0' ] && [ ! -s "$work/out" ] && [ ! -e "$work/none.json" ]
check "a GPU that is not there: by the option that asked for it"

# The n-th call of the device fails: one line, exit 1, nothing that looks whole; in the end it succeeds.
bad=0 i=1
while [ $i -le 6000 ]; do
  rm -f "$work/f.json"
  FAKE_GPU_FAIL=$i "$fake" calibrate --quick --host-gib=0.03125 --out="$work/f.json" >"$work/out" 2>"$work/err"
  rc=$?
  if [ $rc -eq 0 ]; then
    [ -s "$work/f.json" ] || bad=1
    break
  fi
  [ $rc -eq 1 ] && one_line "$work/err" && [ ! -e "$work/f.json" ] && ! ls "$work" | grep -q "\.part$" || bad=$i
  i=$((i + (i < 40 ? 1 : i / 9)))
done
[ $bad -eq 0 ] && [ $rc -eq 0 ] && [ $i -gt 500 ]
check "a device that fails at its n-th call"

"$fake" calibrate --host-gib=0.5 --out="$work/killed.json" >/dev/null 2>&1 & victim=$!
sleep 0.3
kill -9 $victim 2>/dev/null
wait $victim 2>/dev/null
[ ! -e "$work/killed.json" ] || "$program" calibrate --refit="$work/killed.json" >/dev/null 2>&1
check "killed: no descriptor, or a whole one"

"$fake" calibrate --host-gib=0.5 --out="$work/stopped.json" >/dev/null 2>"$work/err" & victim=$!
sleep 0.2
kill -TERM $victim 2>/dev/null
wait $victim
rc=$?
{ [ $rc -eq 130 ] && one_line "$work/err" && [ ! -e "$work/stopped.json" ]; } || [ $rc -eq 0 ]
check "asked to stop: exit 130, nothing written"

bad=0
for words in --host-gib=0 --host-gib=x --gpu=-1 --gpu=x --format=yaml extra --quik "--refit=$work/node.json --quick" --name=; do
  # shellcheck disable=SC2086
  "$program" calibrate $words >"$work/out" 2>"$work/err"
  [ $? -eq 2 ] && one_line "$work/err" && [ ! -s "$work/out" ] || { bad=1; echo "# $words"; }
done
[ $bad -eq 0 ]
check "wrong words: one line, exit 2"

bad=0
for text in '{}' '{"name":"x","calibration":{"points":{}}}' 'nothing' '{"name":"x","calibration":{"machine":"m","driver":"d","date":"2026","program":"p","multiprocessors":1,"seconds":1,"hbm_bytes":1,"host_bytes":1,"points":{"gather":[["nothing",0,0]]}}}'; do
  echo "$text" >"$work/broken.json"
  "$program" calibrate --refit="$work/broken.json" --out="$work/b.json" >"$work/out" 2>"$work/err"
  [ $? -eq 1 ] && one_line "$work/err" && [ ! -e "$work/b.json" ] || { bad=1; echo "# $text"; }
done
# Numbers that no node has (2^62 misses once sent the fit round for ever), whole numbers that are none.
for edit in '5 4611686018427387904' '5 4294967297' '6 18446744073709551616' '8 0.5' '8 65537' '9 -1' '11 3600000001' '3 2'; do
  awk -F, -v OFS=, -v column="${edit% *}" -v value="${edit#* }" '/"resolve": \[/ { there = 1 } there && !done && $8 == 1 && $5 > 0 { $column = value; done = 1 } { print }' \
    "$work/node.json" >"$work/broken.json"
  ! cmp -s "$work/node.json" "$work/broken.json" && timeout -k 1 20 "$program" calibrate --refit="$work/broken.json" --out="$work/b.json" >"$work/out" 2>"$work/err"
  [ $? -eq 1 ] && one_line "$work/err" && grep -q '^[^:]*broken.json:[0-9]*: calibration.points: column [a-z_0-9]* of a point is a .*number from 0 to' "$work/err" &&
    [ ! -e "$work/b.json" ] || { bad=1; echo "# column $edit"; }
done
[ $bad -eq 0 ]
check "points that no node has: one line, exit 1"

# What no scenario would take is not written: a part of 0 bytes, a descriptor that follows one that is not there or itself.
sed 's/"hbm_bytes": [0-9]*/"hbm_bytes": 0/' "$work/node.json" >"$work/broken.json"
"$program" calibrate --refit="$work/broken.json" --out="$work/b.json" >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && one_line "$work/err" && grep -q 'hardware.hbm_gb: must be at least' "$work/err" && [ ! -s "$work/out" ] && [ ! -e "$work/b.json" ] || bad=1
for device in "$program calibrate --refit=$work/node.json" "$fake calibrate --quick --host-gib=0.03125"; do
  $device --from=h201 --out="$work/b.json" >"$work/out" 2>"$work/err"
  [ $? -eq 1 ] && one_line "$work/err" && grep -q '^--from=h201: .*there is no descriptor "h201" (nearest: "h200")' "$work/err" && [ ! -e "$work/b.json" ] || bad=1
done
cp "$work/node.json" "$work/self.json"
"$program" calibrate --refit="$work/node.json" --from="$work/self.json" --out="$work/self.json" >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && one_line "$work/err" && cmp -s "$work/node.json" "$work/self.json" && [ $bad -eq 0 ]
check "a descriptor that no scenario takes is not written"

bad=0
"$program" calibrate --refit="$work/absent.json" 2>"$work/err" >/dev/null
[ $? -eq 1 ] && one_line "$work/err" && "$program" calibrate --out="$work/no/such/place.json" 2>"$work/err" >/dev/null
[ $? -eq 1 ] && one_line "$work/err" && grep -q "$work/no/such" "$work/err" && [ $bad -eq 0 ]
check "files that are none: one line, exit 1"

finish
