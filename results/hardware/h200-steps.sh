#!/bin/sh
# What steps that nobody joined were spent on, by what happened between them and the step before, from decision logs (plain or .gz) of the CUDA plane: TSV, microseconds, means.
#   h200-steps.sh REQUESTS LOG...   steps of at least so many requests; behind h200-headline.md ("what give-back cost") and h200-plane.md ("other machines, and before")
set -u
# shellcheck source=results/hardware/measure.sh disable=SC1091
. "$(dirname "$0")/measure.sh"
case $#:${1-} in 0: | 1:* | *: | *:*[!0-9]*) misused 'h200-steps.sh REQUESTS LOG...' ;; esac
least=$1
shift
for log in "$@"; do
  { [ -f "$log" ] && [ -r "$log" ]; } || fail "$log: cannot be read"
done
workplace
n=0
for log in "$@"; do # whole, before anything is printed
  gzip -cdf "$log" >"$work/log" 2>/dev/null || fail "$log: cannot be unpacked"
  step_durations "$log" <"$work/log" >"$work/steps.$n"
  n=$((n + 1))
done
n=0
printf 'log\tpages_given_back\tpages_arrived\tpages_revoked\tsteps\tmean_us\tp50_us\tcompute_us\tbookkeeping_us\tresolve_us\tfetch_us\n'
for log in "$@"; do
  awk -v least="$least" '$4 == 0 && $5 == 0 && $3 >= least { printf "%d\t%d\t%d\t%.0f\t%s\t%s\t%s\t%s\n", ($7 > 0), ($8 > 0), ($6 > 0), $11 - $9, $12, $13, $14, $15 }' "$work/steps.$n" |
    sort -t"$(printf '\t')" -k1,1 -k2,2 -k3,3 -k4,4n | awk -F '\t' -v OFS='\t' -v file="$(basename "$log" .gz)" '
    function out() { if (n) printf "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", file, k, n, sum[4] / n / 1e3, d[int((n + 1) / 2)] / 1e3, sum[5] / n / 1e3, sum[6] / n / 1e3, sum[7] / n / 1e3, sum[8] / n / 1e3 }
    { now = $1 OFS $2 OFS $3; if (now != k) { out(); n = 0; for (i in sum) delete sum[i]; k = now } d[++n] = $4; for (i = 4; i <= 8; i++) sum[i] += $i }
    END { out() }'
  n=$((n + 1))
done
