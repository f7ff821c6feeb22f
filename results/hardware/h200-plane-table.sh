#!/bin/sh
# Both tables of steps in h200-plane.md, from the raw figures: h200-plane-table.sh FOLDER, with h200-plane-steps.tsv (measured) and h200-plane-model.tsv (forecast) in it.
# Rounds of a run, "NAME (1)" and on, are one line; what it adds to a step is by round, and of the means.
set -u
# shellcheck source=results/hardware/measure.sh disable=SC1091
. "$(dirname "$0")/measure.sh"
[ $# -eq 1 ] || misused 'h200-plane-table.sh FOLDER'
for file in "$1/h200-plane-steps.tsv" "$1/h200-plane-model.tsv"; do
  [ -s "$file" ] || fail "$file: is not there"
done
awk -F '\t' '
  function thousands(x,  s, r) { s = sprintf("%.0f", x); for (r = ""; length(s) > 3; s = substr(s, 1, length(s) - 3)) r = "," substr(s, length(s) - 2) r; return s r }
  function mean(file, name, column,  i, sum) { for (i = 1; i <= rounds[file, name]; i++) sum += v[file, name, i, column]; return sum / rounds[file, name] }
  function each(name, column, between,  i, text) { for (i = 1; i <= rounds[1, name]; i++) text = text (i > 1 ? between : "") thousands(v[1, name, i, column]); return text }
  function over(name,  i, d, least, most, text) {
    if (name ~ /^resident/ || name ~ /82$/ || name ~ /^drafts/) return "" # other layers or another batch
    text = sprintf("%+.0f", mean(1, name, 3) - mean(1, "resident, 44", 3))
    if (rounds[1, name] == 1) return text
    for (i = 1; i <= rounds[1, name]; i++) { d = v[1, name, i, 3] - v[1, "resident, 44", i, 3]; if (i == 1 || d < least) least = d; if (i == 1 || d > most) most = d }
    return sprintf("**%s** (%.0f to %.0f)", text, least, most)
  }
  FNR == 1 { file++; next }
  { name = $1; sub(/ \([0-9]+\)$/, "", name)
    if (!((file, name) in rounds)) names[file, ++count[file]] = name
    r = ++rounds[file, name]; for (i = 2; i <= NF; i++) v[file, name, r, i] = $i }
  END {
    print "| run | steps | mean, us | median | p10 to p90 | host\047s work and gaps | look-up | fetch | rows fetched a step | over resident |\n|---|---|---|---|---|---|---|---|---|---|"
    for (n = 1; n <= count[1]; n++) { name = names[1, n]
      least = most = ""
      for (i = 1; i <= rounds[1, name]; i++) { if (i == 1 || v[1, name, i, 5] < least) least = v[1, name, i, 5]; if (i == 1 || v[1, name, i, 6] > most) most = v[1, name, i, 6] }
      printf "| %s | %s | %s | %s | %s to %s | %.0f | %.0f | %.0f | %s | %s |\n", name, each(name, 2, " + "), each(name, 3, "; "), each(name, 4, "; "), thousands(least), thousands(most),
        mean(1, name, 8), mean(1, name, 9), mean(1, name, 10), thousands(mean(1, name, 13)), over(name)
    }
    print "| run | measured mean, us | predicted | error | look-up + fetch measured | predicted | host\047s work measured | predicted |\n|---|---|---|---|---|---|---|---|"
    for (n = 1; n <= count[2]; n++) { name = names[2, n]
      if (!((1, name) in rounds)) { printf "%s: forecast, not measured\n", name >"/dev/stderr"; exit 1 }
      m = mean(1, name, 3); p = mean(2, name, 3)
      printf "| %s | %s | %s | %+.1f %% | %.0f + %.0f | %.0f + %.0f | %.0f | %.0f |\n", name, thousands(m), thousands(p), 100 * (p / m - 1),
        mean(1, name, 9), mean(1, name, 10), mean(2, name, 9), mean(2, name, 10), mean(1, name, 8), mean(2, name, 8)
    }
  }' "$1/h200-plane-steps.tsv" "$1/h200-plane-model.tsv"
