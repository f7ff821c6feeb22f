#!/bin/sh
# What steps that nobody joined were spent on, by what happened between them and the step before, from decision logs (plain or .gz) of the CUDA plane: TSV, microseconds, means.
#   h200-steps.sh REQUESTS LOG...   steps of at least so many requests; behind h200-headline.md ("what give-back cost") and h200-plane.md ("five rounds")
case $#:${1-} in 0: | 1:* | *: | *:*[!0-9]*) echo 'usage: h200-steps.sh REQUESTS LOG...' >&2; exit 2 ;; esac
least=$1
shift
for log in "$@"; do
  if [ ! -f "$log" ] || [ ! -r "$log" ]; then echo "h200-steps.sh: $log: cannot be read" >&2; exit 1; fi
done
for log in "$@"; do # whole, before anything is printed
  gzip -cdf "$log" >/dev/null 2>&1 || { echo "h200-steps.sh: $log: cannot be unpacked" >&2; exit 1; }
  case $(gzip -cdf "$log" 2>/dev/null | head -n 1 | tr -d '\0') in 'kvloan-log '*) ;; *) echo "h200-steps.sh: $log: is no decision log" >&2; exit 1 ;; esac
done
printf 'log\tpages_given_back\tpages_arrived\tpages_revoked\tsteps\tmean_us\tp50_us\tcompute_us\tbookkeeping_us\tresolve_us\tfetch_us\n'
for log in "$@"; do
  gzip -cdf "$log" | awk -v least="$least" '
    $1 == "copy" && $3 != "write_back" { give += $9 }
    $1 == "done" && $4 == "copy" && $6 < 9223372036854775808 { arrived = 1 }
    $1 == "step" { gpu = $2; key[gpu] = (give > 0) "\t" (arrived > 0) "\t" ($7 > 0); want[gpu] = $5 == 0 && $9 == 0 && $12 >= least; give = arrived = 0 }
    $1 == "done" && $4 == "step" && want[$5] {
      for (i = 7; i <= NF; i++) { if ($i == "times") split($(i + 1), t, ","); if ($i == "stall") { n = split($(i + 1), s, ","); while (n < 4) s[++n] = 0 } }
      printf "%s\t%d\t%d\t%d\t%d\t%d\n", key[$5], t[3] - t[1], s[1], s[2], s[3], s[4] }' | sort -t"$(printf '\t')" -k1,1 -k2,2 -k3,3 -k4,4n | awk -F '\t' -v OFS='\t' -v file="$(basename "$log" .gz)" '
    function out() { if (n) printf "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", file, k, n, sum[4] / n / 1e3, d[int((n + 1) / 2)] / 1e3, sum[5] / n / 1e3, sum[6] / n / 1e3, sum[7] / n / 1e3, sum[8] / n / 1e3 }
    { now = $1 OFS $2 OFS $3; if (now != k) { out(); n = 0; for (i in sum) delete sum[i]; k = now } d[++n] = $4; for (i = 4; i <= 8; i++) sum[i] += $i }
    END { out() }'
done
