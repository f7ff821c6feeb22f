#!/bin/sh
# The two tables of "Today" in results/hardware/h200-kernels.md, from the newest raw figures there are of each cell: h200-kernels.sh FOLDER (results/hardware). A test
# compares them with the page. Limits: 1.5 x floor without misses, floor + 10 % + 5 us with; eight resolves of the V4.1 shape in one graph: 60 us all resident, else 8 x 5 us + 110 % of the gather.
set -eu
[ $# -eq 1 ] || { echo 'usage: h200-kernels.sh FOLDER' >&2; exit 2; }
cd "$1"
cat >/dev/null h200-peers.tsv h200-kernels-3-tuning.jsonl h200-kernels-4.jsonl h200-kernels-5.jsonl # or it ends here, with the name of what is missing
echo '| requests | misses each | event, limit | gated, limit | graph, limit | best peer (event) | as fast | raw figures |'
echo '|---|---|---|---|---|---|---|---|'
{
  sed 's/^/peers.tsv\t/' h200-peers.tsv
  sed 's/^/3-tuning\t/' h200-kernels-3-tuning.jsonl | grep '"peer","variant":"ca6"' | grep -v '"requests":\(1\|64\),'
  sed 's/^/4\t/' h200-kernels-4.jsonl | grep '"peer","variant":"early 2, overlap"'
} | awk -F '\t' '
  BEGIN { system_of["sglang-main-2026-08"] = "SGLang"; system_of["vllm-fused"] = "vLLM, fused"; system_of["vllm-split"] = "vLLM, split" }
  function value(key,  at) { at = index($2, "\"" key "\":"); return at == 0 ? "" : substr($2, at + length(key) + 3) + 0 }
  function bucket(misses) { return misses < 50 ? 0 : misses < 150 ? 1 : misses < 400 ? 2 : 3 }
  function cell(kind, digits,  us, floor, limit) {
    us = value(kind "_us"); floor = value("floor_" kind "_us"); limit = misses == 0 ? 1.5 * floor : 1.1 * floor + 5
    return sprintf("%.*f, %.*f%s", digits, us, digits, limit, us > limit ? " **missed**" : "")
  }
  $1 == "peers.tsv" { if ($4 == 2048 && $5 == 4096) { k = $3 SUBSEP bucket($8); if (!(k in best) || $9 < best[k]) { best[k] = $9; name[k] = system_of[$2] } } next }
  { requests = value("requests"); misses = value("misses_per_request"); k = requests SUBSEP bucket(misses); us = value("event_us")
    printf "%03d|%d|| %d | %.0f | %s | %s | %s | %.1f, %s | %s | `-%s` |\n", requests, bucket(misses), requests, misses, cell("event", 1), cell("gated", 1), cell("graph", 2), best[k], name[k],
      (us <= best[k] ? "" : "**slower** ") sprintf("%.1f times", best[k] / us), $1 }' | LC_ALL=C sort | sed 's/^[^|]*|[^|]*|//'
echo
echo '| requests | pages lent | host rows over, GiB | eight resolves, us | floor: bare gather, us | limit | raw figures |'
echo '|---|---|---|---|---|---|---|'
{
  grep '"kernel":"54c53f1","bench":"v41","variant":"cluster",' h200-kernels-5.jsonl | sed 's/^/5\t/'
  grep '"v41","variant":"early 3, overlap"' h200-kernels-4.jsonl | grep '"pool_gib":27.49' | sed 's/^/4\t/'
} | awk -F '\t' '
  function value(key,  at) { at = index($2, "\"" key "\":"); return at == 0 ? "" : substr($2, at + length(key) + 3) + 0 }
  { floor = value("floor_gather_us"); us = value("step_us"); limit = value("lent_percent") == 100 ? 60 : 40 + 1.1 * floor
    printf "%03d|%05.2f|%03d|| %d | %d %% | %.1f | %.1f | %s | %.1f%s | `-%s` |\n", value("requests"), value("pool_gib"), 100 - value("lent_percent"), value("requests"), value("lent_percent"), value("pool_gib"), us,
      (floor > 0 ? sprintf("%.1f", floor) : "-"), limit, (us > limit ? sprintf(" **missed by %.0f %%**", 100 * (us / limit - 1)) : ""), $1 }' | LC_ALL=C sort | sed 's/^[^|]*|[^|]*|[^|]*|//'
