#!/bin/sh
# The CUDA plane's logic over a device without a GPU, against the real wall clock: what it records replays in the model plane with the identical decisions and
# counts, and no byte differs. When things end depends on the machine and its load, so each run is another one. Arguments: kvloan_fake, scenarios/. Prints TAP.
. "$(dirname "$0")/../base/tap.sh"
program=$(absolute "$1") scenarios=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# Clients come a little faster than they are served, and go away when it takes too long: pages come, go, are kept.
"$program" scenario json "$scenarios/published-256.json" --set=name=small --set=workload.concurrency=8 --set=workload.requests=16 --set=workload.input_tokens=2000 \
  --set=workload.cached_tokens=0 --set=workload.output_tokens=60 --set=workload.open_interval_ms=20 --set=policy.hot_rows=600 --set=policy.bank_rows=0 \
  --set=node.decode_gpus=1 --set=node.kv_pool_bytes=22000000 --set=node.host_pool_bytes=60000000 --set=policy.horizon_ms=100 \
  --set=policy.give_back_bytes_max=300000 --set=costs.prefill_fixed_ms=2 --set=costs.prefill_token_us=0.5 --set=limits.request_timeout_s=0.6 >small.json 2>err
pass_or_fail $? 'a scenario from a scenario'

# What replayed is left in `out`.
replays() { # NAME OPTIONS...
  name=$1
  shift
  rm -f run.log
  "$program" run small.json --plane=cuda --quiet --record=run.log "$@" >out 2>err && grep -q ', 0 differ$' err
  pass_or_fail $? "$name: every byte is as it must be"
  "$program" replay run.log >out 2>err && grep -q '^steps with other counts *0$' out
  pass_or_fail $? "$name: the replay is identical"
}
replays 'adaptive'
replays 'beside the steps, two GPUs' --set=policy.admission_copy=side_stream --set=node.decode_gpus=2 --set=policy.revoke_order=least_selected
replays 'in pieces' --set=policy.admission_copy=bounded --set=policy.admission_chunk_bytes=100000 --set=policy.give_back_order=most_selected
replays 'fixed' --set=mode=fixed
replays 'drafts and pools' --set=policy.bank_rows=4096 --set=policy.prefetch=pool --set=speculation.method=dspark --set=speculation.drafts=5 \
  --set=node.kv_pool_bytes=34000000 --set=workload.requests=8

# Four layers share a selection and have a part each of its rows: fetch lists go again over the link.
mkdir models
cat >models/parts.json <<'END'
{"name": "parts", "source": "made up for a test", "layers": 10, "caches": [
  {"name": "L", "written_layer": 0, "tokens_per_row": 1, "row_bytes": 64, "index_key_bytes": 8, "repeat": 2, "every": 1,
   "selections": [{"layer": 0, "k": 256, "readers": 1}]},
  {"name": "G", "written_layer": 2, "tokens_per_row": 1, "row_bytes": 256, "index_key_bytes": 8, "layers": 4, "repeat": 2, "every": 4,
   "selections": [{"layer": 2, "k": 256, "readers": 4}]}]}
END
replays 'rows in parts' --set=model=parts --set=policy.prefetch=plan --set=policy.hot_rows=300 --set=mode=fixed --set=workload.requests=6
grep -q '^prefetch.copied *[1-9]' out
pass_or_fail $? 'rows in parts: fetched ahead'

# validate: times here are nobody's, so the forecast may be off; bytes and decisions may not.
"$program" validate small.json --plane=cuda --check=sample --tsv --record=kept.log >out 2>err
got=$?
awk -F '\t' '$2 == "mismatches" || $2 == "decisions_differ" || $2 == "steps_differ" { n += $10 == "ok" } $2 == "rows_checked" { r = $4 } $1 == "device" { d++ }
  END { exit !(n == 3 && r > 0 && d > 5) }' out && test $got -le 1
pass_or_fail $? 'validate: bytes and decisions'

# In resident mode, too, where look-ups are in no count.
"$program" validate small.json --plane=cuda --check=sample --tsv --set=mode=resident --set=node.kv_pool_bytes=60000000 --set=node.host_pool_bytes=1 >out 2>err
got=$?
awk -F '\t' '$2 == "mismatches" || $2 == "decisions_differ" || $2 == "steps_differ" { n += $10 == "ok" } $2 == "rows_checked" { r = $10 == "ok" ? $4 : 0 }
  $1 == "selections" && $2 != "rows_fetched" { t++ } END { exit !(n == 3 && r > 0 && t == 0) }' out && test $got -le 1
pass_or_fail $? 'validate: resident mode'

# Candidate prefetch: what was copied and what later selections still fetched are counts, so the same steps give them again; rounds landed are at most all rounds.
"$program" validate small.json --plane=cuda --check=sample --tsv --set=policy.bank_rows=4096 --set=policy.prefetch=pool --set=node.kv_pool_bytes=34000000 --set=workload.requests=6 >out 2>err
got=$?
awk -F '\t' '$1 == "prefetch" { v[$2] = $4; if ($2 !~ /rounds_landed|margin/) n += $4 == $5 }
  END { exit !(n == 7 && v["copied"] > 0 && v["candidates"] == v["resident"] + v["copied"] + v["dropped"] && v["rounds"] > 0 && v["rounds_landed"] <= v["rounds"] &&
    v["later_selections"] > v["later_selections_on_demand"]) }' out && test $got -le 1
pass_or_fail $? 'validate: what prefetch did'

# Nothing is under way, the next request comes in hours: who is told to stop does not wait for it, says so, and what was recorded replays.
timeout 20 "$program" run small.json --plane=cuda --record=idle.log --set=workload.kind=poisson --set=workload.rate_per_s=0.0001 --set=workload.requests=3 >out 2>err &
running=$!
sleep 1
kill -TERM $running # which timeout hands on
wait $running
code=$?
test $code -eq 130 && grep -q 'ended early at [01]\.[0-9]* s' err
pass_or_fail $? 'an idle run ends when it is told to'
"$program" replay idle.log >out 2>err && grep -q '^steps with other counts *0$' out
pass_or_fail $? 'an idle run that was told to stop: the replay is identical'

finish
