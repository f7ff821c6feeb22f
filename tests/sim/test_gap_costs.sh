#!/bin/sh
# What the host does between two steps and how histories come, in the model plane: each cost makes the times longer by what it says, worked out by hand, and nothing by
# default. Arguments: kvloan, scenarios/. Prints TAP.
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") scenarios=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# One session of 6,400 tokens at a time (100 pages of 64), two after one another, 70 tokens out: one page is completed by each.
run() { # NAME SETTINGS...
  name=$1
  shift
  "$program" run published-256 --format=json --quiet --set=node.decode_gpus=1 --set=node.prefill_gpus=1 --set=workload.concurrency=1 --set=workload.requests=2 \
    --set=workload.input_tokens=6400 --set=workload.cached_tokens=6400 --set=workload.output_tokens=70 --set=node.prefill_starts=arrival --set=costs.revoke_page_us=0 \
    --set=workload.open_interval_ms=0 "$@" >"$name" 2>err </dev/null || cat err
}
of() { sed -n "s/.*\"$2\": \([0-9.]*\).*/\1/p" "$1" | head -1; }
more() { # NAME CAUSE MILLISECONDS
  awk -v a="$(of plain "$2")" -v b="$(of "$1" "$2")" -v ms="$3" 'BEGIN { d = b - a - ms; exit !(d < 0.0005 && d > -0.0005) }' || { echo "$1: $2 $(of plain "$2") and $(of "$1" "$2"), $3 ms asked" >>err; return 1; }
}
export KVLOAN_SCENARIOS="$scenarios"
run plain
run zeros --set=costs.reserve_ms=0 --set=costs.keep_page_us=0 --set=costs.history_gb_per_s=0 --set=hardware.link.pages_both_ways_percent=100
grep -v '"\(wall_s\|selections_per_wall_s\|peak_memory_bytes\)"' plain >a && grep -v '"\(wall_s\|selections_per_wall_s\|peak_memory_bytes\)"' zeros >b && cmp -s a b
pass_or_fail $? 'by default they are nothing'

run reserve --set=costs.reserve_ms=3 --set=costs.reserve_token_ns=1000 # 3 + 6.4 ms each; nobody is in the batch, so it is the joining's
more reserve admission 18.8
pass_or_fail $? 'a slot laid out'
run join --set=costs.admission_token_ns=500
more join admission 6.4
pass_or_fail $? 'a page map sent'
run keep --set=costs.keep_page_us=700
more keep bookkeeping 1.4
pass_or_fail $? 'a page kept'
run release --set=costs.release_ms=5 # the first one's delays the joining of the second; after the last nobody waits
more release admission 5
pass_or_fail $? 'a slot given up'
run resident --set=mode=resident
cp resident plain
run more --set=mode=resident --set=costs.resident_bookkeeping_ms_at_44=44 --set=costs.bookkeeping_exponent=1 # 1 ms a step of one request, 70 steps a request
more more bookkeeping 140
pass_or_fail $? 'bookkeeping in resident mode'

# 6,400 tokens are 3 x 3,200 + 6,400 rows of 288 B = 4,608,000 B: at 0.1 GB/s 46.08 ms from the reservation on; the transfer, hidden in it, takes what it takes without.
run plain
joined=$(of plain ttft_s_p50)
run history --set=costs.history_gb_per_s=0.1
awk -v a="$joined" -v b="$(of history ttft_s_p50)" -v w="$(of history admission)" -v p="$(of plain admission)" 'BEGIN { d = 1000 * (b - a); wait = (w - p) / 2
  exit !(wait > 40 && wait < 46.08 && d - wait < 0.01 && wait - d < 0.01) }'
pass_or_fail $? 'a request waits for its history'
# The second of two at once is written behind the first, and population of the first is slowed by it: 4,608,000 B in pieces at 40 GB/s and 20 us are 135.2 us alone.
pair='--set=workload.concurrency=2 --set=node.prefill_gpus=2 --set=hardware.link.pages_gb_per_s_by_piece=[[9216,40],[65536,40]] --set=hardware.link.pages_floor_us=20 --set=costs.history_gb_per_s=0.1'
# shellcheck disable=SC2086
run plain $pair
# shellcheck disable=SC2086
run slow $pair --set=hardware.link.pages_both_ways_percent=300
awk -v p="$(of plain population)" -v s="$(of slow population)" 'BEGIN { d = s - p; exit !(p > 0.2703 && p < 0.2705 && d > 0.2703 && d < 0.2705) }'
pass_or_fail $? 'population while another history leaves'
finish
