#!/bin/sh
# The CUDA plane's own logic, on a device without a GPU: test_plane_cuda.sh KVLOAN_FAKE. Whole runs against the wall clock, every selected row of every step read
# back, then the recorded completions replayed in the model plane: bytes, counts and decisions must be the same. Then the device fails, call by call.
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cat >s.json <<'END'
{
  "name": "small", "model": "deepseek-v4.1-flash", "mode": "adaptive", "costs": "deepseek-v4.1-flash.b300",
  "node": {"hardware": "h200", "prefill_gpus": 1, "decode_gpus": 1, "kv_pool_bytes": 25000000, "host_pool_bytes": 400000000},
  "policy": {"hot_rows": 1024, "bank_rows": 0, "page_tokens": 64, "tail_tokens": 256},
  "workload": {"kind": "closed", "concurrency": 6, "requests": 10, "input_tokens": 5000, "cached_tokens": 4992, "output_tokens": 30},
  "selection": {"source": "preset", "preset": "hot-a", "library_sessions": 0}, "seed": 3
}
END
whole() { # NAME SETTINGS...
  name=$1
  shift
  "$program" run s.json --plane=cuda --check=all --quiet --record=log --set=costs.prefill_fixed_ms=2 "$@" >out 2>err &&
    grep -q ' selected rows read back through their addresses, 0 differ' err && "$program" replay log >out 2>err
  pass_or_fail $? "$name"
}
drafts='--set=speculation.method=dspark --set=speculation.accepted_mean=3.1 --set=speculation.cost_table=[[1,13.4],[400,90]] --set=policy.tail_tokens=512'
pool='--set=policy.prefetch=pool --set=policy.bank_rows=1024 --set=model.pool_blocks=512 --set=model.pool_rows_per_block=2 --set=workload.requests=6'
whole adaptive
whole fixed --set=mode=fixed --set=policy.hot_rows=100
whole "more pages at once than a step's list of updates holds" --set=workload.input_tokens=24000 --set=workload.cached_tokens=24000 --set=policy.page_tokens=16 \
  --set=node.kv_pool_bytes=60000000 --set=workload.requests=2 --set=workload.concurrency=1 --set=workload.output_tokens=5
whole resident --set=mode=resident --set=node.kv_pool_bytes=60000000
whole "resident, whatever the tail" --set=mode=resident --set=node.kv_pool_bytes=60000000 --set=policy.tail_tokens=1 --set=workload.requests=3
# Three sessions at a time in frames that others have left, histories that end within a page, pages completed by the output. No host memory at all.
whole "resident, frames of sessions that have ended" --set=mode=resident --set=node.kv_pool_bytes=36000000 --set=node.host_pool_bytes=1 \
  --set=workload.input_tokens=5030 --set=policy.page_tokens=32 --set=workload.output_tokens=80 --set=workload.requests=9
# shellcheck disable=SC2086
whole "resident, drafts" --set=mode=resident --set=node.kv_pool_bytes=40000000 $drafts --set=policy.page_tokens=16 --set=workload.output_tokens=80 \
  --set=workload.input_tokens=5021
whole "resident, two GPUs, orders that go by selections" --set=mode=resident --set=node.kv_pool_bytes=40000000 --set=node.decode_gpus=2 \
  --set=policy.revoke_order=least_selected --set=policy.give_back_order=most_selected
# shellcheck disable=SC2086
whole "resident, what only other modes have" --set=mode=resident --set=node.kv_pool_bytes=60000000 $pool --set=policy.layer_sharing=off
whole "resident, rows in parts" --set=mode=resident --set=model=glm-5.2 --set=costs=glm-5.2.roofline --set=policy.prefetch=plan --set=node.kv_pool_bytes=2400000000 \
  --set=workload.requests=3 --set=workload.concurrency=2 --set=workload.input_tokens=4000 --set=workload.cached_tokens=4000 --set=workload.output_tokens=3
whole "resident, clients that go away" --set=mode=resident --set=node.kv_pool_bytes=40000000 --set=limits.request_timeout_s=0.2 --set=workload.requests=12
whole "population beside the steps, pages completed and kept" --set=policy.admission_copy=side_stream --set=workload.input_tokens=5030 --set=policy.page_tokens=32 \
  --set=workload.output_tokens=80 --set=workload.requests=8
whole "population in pieces" --set=policy.admission_copy=bounded --set=policy.admission_chunk_bytes=300000
whole "orders that go by selections" --set=policy.revoke_order=least_selected --set=policy.give_back_order=most_selected
whole "no hot cache" --set=policy.hot_rows=0 --set=workload.requests=6
whole "two GPUs" --set=node.decode_gpus=2
whole "layer sharing off" --set=policy.layer_sharing=off --set=workload.requests=6
# What a layer takes is what it reads, and its stand-in for the rest: together what the law says (8 us), however many of the layers look up first.
layers() { # NAME SETTINGS...
  name=$1
  shift
  FAKE_GPU_TIMED=1 "$program" run s.json --plane=cuda --check=all --quiet --record=log --set=costs=deepseek-v4.1-flash.h200 --set=costs.prefill_fixed_ms=2 \
    --set=costs.law_fixed_ms=0.304 --set=costs.law_token_ms=0 --set=workload.requests=6 "$@" >out 2>err &&
    awk '$1 == "done" && $4 == "step" && $6 > 2 { for (i = 7; i <= NF; i++) if ($i == "stall") { split($(i + 1), ns, ","); steps++; off += ns[1] < 303900 || ns[1] > 304100 } }
      END { exit steps < 10 || off }' log
  pass_or_fail $? "a layer's length: $name"
}
layers "few look up"
layers "each looks up" --set=policy.layer_sharing=off
layers "resident" --set=mode=resident --set=node.kv_pool_bytes=60000000
# shellcheck disable=SC2086
whole speculation $drafts --set=node.kv_pool_bytes=33000000
# A page's selections are those of its committed rows: drafts name rows that may be rejected.
# shellcheck disable=SC2086
whole "speculation, orders that go by selections" $drafts --set=node.kv_pool_bytes=33000000 --set=policy.page_tokens=16 --set=workload.output_tokens=80 \
  --set=policy.revoke_order=least_selected --set=policy.give_back_order=most_selected
# shellcheck disable=SC2086
whole pools $pool --set=node.kv_pool_bytes=30000000
# shellcheck disable=SC2086
whole "pools without layer sharing" $pool --set=node.kv_pool_bytes=30000000 --set=policy.layer_sharing=off --set=workload.requests=3
# shellcheck disable=SC2086
whole "pools and speculation" $pool $drafts --set=node.kv_pool_bytes=40000000
# shellcheck disable=SC2086
whole "pools with a limit and speculation" $pool $drafts --set=node.kv_pool_bytes=40000000 --set=policy.pool_rows_max=900
whole "fetch lists replayed for the parts of a group's layers" --set=model=glm-5.2 --set=costs=glm-5.2.roofline --set=mode=fixed --set=policy.prefetch=plan \
  --set=policy.hot_rows=2048 --set=node.kv_pool_bytes=2400000000 --set=node.host_pool_bytes=2000000000 --set=workload.requests=3 --set=workload.concurrency=2 \
  --set=workload.input_tokens=4000 --set=workload.cached_tokens=4000 --set=workload.output_tokens=3
# Requests come one by one: a batch slot is used for the first time while others run.
export FAKE_GPU_LATE_PIN=1
whole "nothing is pinned while steps run" --set=workload.open_interval_ms=60 --set=workload.requests=8
unset FAKE_GPU_LATE_PIN
whole "clients that go away" --set=limits.request_timeout_s=0.2 --set=workload.requests=12

# Host rows gathered once more behind the step: the device refuses other rows than those that the step has fetched. Nothing else is changed by it.
floor() { # NAME SETTINGS...
  name=$1
  shift
  "$program" validate s.json --floor --check=all --tsv --set=costs.prefill_fixed_ms=2 "$@" >out 2>err
  awk -F '\t' '{ v[$1, $2] = $4 } function near(a, b) { return a - b < 0.01 && b - a < 0.01 }
    END { split("owned. ordered. dealt.", shapes, " ")
      for (i in shapes) { s = "floor" SUBSEP shapes[i]; bad += v[s "steps"] < 1 || v[s "rows.mean"] < 1 || v[s "gather.mean"] <= 0 || v[s "span.p50"] < v[s "gather.p50"] ||
        !near(v[s "over.mean"], v[s "look_up.mean"] - v[s "gather.mean"]) }
      exit bad || v["floor", "steps"] < 1 || v["bytes", "mismatches"] != "0" || v["replay", "decisions_differ"] != "0" || v["replay", "steps_differ"] != "0" }' out
  pass_or_fail $? "floor: $name"
}
floor adaptive --set=policy.hot_rows=100
# shellcheck disable=SC2086
floor "two GPUs, pools and speculation" --set=node.decode_gpus=2 $pool $drafts --set=mode=fixed --set=node.kv_pool_bytes=40000000 --set=policy.hot_rows=100
floor "rows in parts, of which resolve brings the first" --set=model=glm-5.2 --set=costs=glm-5.2.roofline --set=mode=fixed --set=policy.prefetch=plan \
  --set=policy.hot_rows=2048 --set=node.kv_pool_bytes=1200000000 --set=node.host_pool_bytes=1000000000 --set=workload.requests=1 --set=workload.concurrency=1 \
  --set=workload.input_tokens=4000 --set=workload.cached_tokens=4000 --set=workload.output_tokens=14
one='--set=mode=fixed --set=policy.hot_rows=100 --set=workload.requests=1 --set=workload.concurrency=1 --set=costs.prefill_fixed_ms=2'
for with in '' --floor; do # one request: nothing depends on the clock
  rm -f log "told$with"
  # shellcheck disable=SC2086
  FAKE_GPU_TOLD=told$with "$program" validate s.json $with --check=all --record=log --tsv $one >"out$with" 2>err &&
    sed -n 's/^done .* step \([0-9]* [0-9]*\) times.* \(lanes [0-9,]* rows [0-9,]*\) .*/\1 \2/p; /^\(open\|close\|step\|keep\) /p' log >"decisions$with" &&
    grep -E '^(bytes|selections)' "out$with" | cut -f 1-4 >"counts$with"
done
[ "$(grep -c ' lanes ' decisions)" -eq 30 ] && cmp decisions decisions--floor && grep -q 'host' counts && cmp counts counts--floor
pass_or_fail $? 'with --floor every decision and every count is as without'
grep -q 'gather' told--floor && grep -q 'fetch lists' told--floor && ! grep -E 'gather|fetch lists' told && ! grep -q '^floor' out && grep -q '^floor' out--floor
pass_or_fail $? 'without --floor nothing is gathered, and there is no memory for it'
refuses 2 '--floor: only --plane=cuda has a gather to time, not --plane=model' validate s.json --floor --plane=model --check=none
refuses 1 'mode = resident: no row comes from the host, so --floor has none to gather' validate s.json --floor --set=mode=resident --set=node.kv_pool_bytes=60000000

# shellcheck disable=SC2086
run dspark-table s.json --plane=cuda $drafts --set=node.kv_pool_bytes=33000000 --set=costs.prefill_fixed_ms=2 --batch-max=2
[ "$code" -eq 0 ] && grep -q '"cost_table":{"value":\[\[1,[0-9.]*[1-9][0-9]*\],.*"origin":"kvloan dspark-table: [0-9]* runs on the cuda plane, adaptive mode, batches of 1 to 2"' out
pass_or_fail $? "a table of step times by the plane's clock"

refuses 1 '9 GPUs are asked for (node.decode_gpus), this machine has 8' run s.json --plane=cuda --set=node.decode_gpus=9 --record=nine.log --store=nine.db
test ! -e nine.log && test ! -e nine.db
pass_or_fail $? 'more GPUs than there are: nothing is left'

# The n-th call of the device fails, for n over the opening and on into the run: one line, no log that looks whole, a clean end.
bad=0
for i in 1 2 3 5 8 13 21 34 55 89 144 233 377 610 987 1597 2584 4181; do
  rm -f log
  FAKE_GPU_FAIL=$i "$program" run s.json --plane=cuda --quiet --record=log --set=workload.requests=3 --set=costs.prefill_fixed_ms=2 >out 2>err
  rc=$?
  if [ $rc -ne 1 ] || [ "$(grep -c 'was told to fail' err)" -ne 1 ] || [ -e log ]; then
    bad=1
    echo "# call $i: exit $rc"
    break
  fi
done
pass_or_fail $bad 'a device that fails'
# The same of what --floor adds: its memory, gathers, and whatever comes around them.
memory=$(grep -v '^gather$' told--floor | grep -n -e --floor | cut -d : -f 1)
bad=0
for fault in "alloc $memory" "alloc $((memory - 5))" 'gather 1' 'gather 19' 'copy 60' 'record 40' 'query 30'; do
  rm -f log
  # shellcheck disable=SC2086
  FAKE_GPU_FAIL=${fault#* } FAKE_GPU_FAIL_CALL=${fault% *} "$program" validate s.json --floor --record=log $one >out 2>err
  rc=$?
  if [ $rc -ne 1 ] || [ "$(wc -l <err)" -ne 1 ] || ! grep -q "GPU: ${fault% *}: .* was told to fail" err || [ -s out ] || [ -e log ]; then
    bad=1
    echo "# $fault: exit $rc"
    cat err
    break
  fi
done
pass_or_fail $bad 'a device that fails in what --floor adds'
finish
