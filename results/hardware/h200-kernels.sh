#!/bin/sh
# The two tables of "Today" in results/hardware/h200-kernels.md, from the newest raw figures there are of each cell: h200-kernels.sh FOLDER (results/hardware). A test
# compares them with the page. Limits: 1.5 x floor without misses, floor + 10 % + 5 us with; eight resolves of the V4.1 shape in one graph: 60 us all resident, else 8 x 5 us + 110 % of the gather.
set -eu
[ $# -eq 1 ] || { echo 'usage: h200-kernels.sh FOLDER' >&2; exit 2; }
cd "$1"
cat >/dev/null h200-peers.tsv h200-kernels-5.jsonl h200-kernels-6.jsonl # or it ends here, with the name of what is missing
echo '| requests | misses each | event, limit (rounds within theirs) | gated, limit | graph, limit | best peer (event) | as fast |'
echo '|---|---|---|---|---|---|---|'
{
  sed 's/^/peers.tsv\t/' h200-peers.tsv
  sed 's/^/6\t/' h200-kernels-6.jsonl | grep '"bench":"peer"' | grep '"kernel":"f6ca2de"'
} | awk -F '\t' '
  BEGIN { system_of["sglang-main-2026-08"] = "SGLang"; system_of["vllm-fused"] = "vLLM, fused"; system_of["vllm-split"] = "vLLM, split" }
  function value(key,  at) { at = index($2, "\"" key "\":"); return at == 0 ? "" : substr($2, at + length(key) + 3) + 0 }
  function bucket(misses) { return misses < 50 ? 0 : misses < 150 ? 1 : misses < 400 ? 2 : 3 }
  function median(k, key,  i, j, v, n) { # over the rounds of a cell
    for (i = 1; i <= rounds[k]; i++) { for (j = i; j > 1 && v[j - 1] > all[k, key, i]; j--) v[j] = v[j - 1]; v[j] = all[k, key, i] }
    n = rounds[k]
    return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
  }
  function limit(k, floor) { return k ~ SUBSEP "0$" ? 1.5 * floor : 1.1 * floor + 5 }
  function cell(k, kind, digits,  us, most) {
    us = median(k, kind "_us"); most = limit(k, median(k, "floor_" kind "_us"))
    return sprintf("%.*f, %.*f%s", digits, us, digits, most, us > most ? " **missed**" : "")
  }
  $1 == "peers.tsv" { if ($4 == 2048 && $5 == 4096) { k = $3 SUBSEP bucket($8); if (!(k in best) || $9 < best[k]) { best[k] = $9; name[k] = system_of[$2] } } next }
  { k = value("requests") SUBSEP bucket(value("misses_per_request")); n = ++rounds[k]; requests[k] = value("requests")
    split("event_us gated_us graph_us floor_event_us floor_gated_us floor_graph_us misses_per_request", key, " ")
    for (i = 1; i <= 7; i++) all[k, key[i], n] = value(key[i])
    within[k] += all[k, "event_us", n] <= limit(k, all[k, "floor_event_us", n]) }
  END { for (k in rounds) { us = median(k, "event_us"); split(k, part, SUBSEP)
    printf "%03d|%d|| %d | %.0f | %s (%d of %d) | %s | %s | %.1f, %s | %s |\n", requests[k], part[2], requests[k], median(k, "misses_per_request"), cell(k, "event", 1), within[k], rounds[k], cell(k, "gated", 1),
      cell(k, "graph", 2), best[k], name[k], (us <= best[k] ? "" : "**slower** ") sprintf("%.1f times", best[k] / us) } }' | LC_ALL=C sort | sed 's/^[^|]*|[^|]*|//'
echo
echo '| requests | pages lent | host rows over, GiB | eight resolves, us | floor: bare gather, us | limit | kernel, raw figures |'
echo '|---|---|---|---|---|---|---|'
{
  grep '"kernel":"54c53f1","bench":"v41","variant":"cluster","requests":44,' h200-kernels-5.jsonl | sed 's/^/54c53f1 5\t/'
  grep '"bench":"v41",' h200-kernels-6.jsonl | grep '"call":"07:26"' | grep '"kernel":"f6ca2de"' | sed 's/^/f6ca2de 6\t/'
  grep '"bench":"v41",' h200-kernels-6.jsonl | grep '"call":"06:43"' | sed 's/^/28b0413 6\t/'
} | awk -F '\t' '
  function value(key,  at) { at = index($2, "\"" key "\":"); return at == 0 ? "" : substr($2, at + length(key) + 3) + 0 }
  { split($1, from, " "); floor = value("floor_gather_us"); us = value("step_us"); limit = value("lent_percent") == 100 ? 60 : 40 + 1.1 * floor
    printf "%03d|%05.2f|%03d|| %d | %d %% | %.1f%s | %.1f | %s | %.1f%s | %s |\n", value("requests"), value("pool_gib"), 100 - value("lent_percent"), value("requests"), value("lent_percent"), value("pool_gib"),
      ($2 ~ /"pool":"alloc"/ ? ", `cudaHostAlloc`" : ""), us, (floor > 0 ? sprintf("%.1f", floor) : "-"), limit, (us > limit ? sprintf(" **missed by %.0f %%**", 100 * (us / limit - 1)) : ""), from[1] ", `-" from[2] "`" }' | LC_ALL=C sort | sed 's/^[^|]*|[^|]*|[^|]*|//'
