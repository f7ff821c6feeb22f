#!/bin/sh
# Predicted against measured, results/hardware/h200-forecast.md. Two halves, because a GPU is lent by the minute:
#   h200-forecast.sh record KVLOAN SCENARIOS OUT   on the GPU machine: each run's decision log and summary into OUT
#   h200-forecast.sh compare KVLOAN SCENARIOS OUT  anywhere: replays each log in the model plane, forecasts the same scenario, prints one row a run (TSV); on stderr
#                                                  medians, 95th percentiles and worst errors of the fit set (every fourth run by name) and of the others, which were held out
# Runs differ from scenarios/h200/half-revoked.json by the settings in h200-forecast.txt: a name, then settings. Forecasts use node.hardware=h200.measured.
# Either stops at the first run that fails; of that one nothing is left in OUT.
set -u
# shellcheck source=results/hardware/measure.sh disable=SC1091
. "$(dirname "$0")/measure.sh"
usage='h200-forecast.sh record|compare KVLOAN SCENARIOS OUT'
case $#:${1-} in 4:record | 4:compare) ;; *) misused "$usage" ;; esac
what=$1 kvloan=$2 scenarios=$3 out=$4
prepare "$kvloan" "$scenarios" "$out"
list=$(dirname "$0")/h200-forecast.txt
base=$scenarios/h200/half-revoked.json
fit=" $(grep -v '^#' "$list" | awk 'NF { print $1 }' | LC_ALL=C sort | awk 'NR % 4 == 0' | tr '\n' ' ')"
[ "$what" = record ] || printf 'run\tset\tdecisions\tsteps_differ\tstep_ms\tforecast_step_ms\tstep_error_percent\tthroughput\tforecast_throughput\tthroughput_error_percent\tlargest_tier_error_percent\trows_checked\tmismatches\n' >"$work/rows.tsv"
while read -r name settings; do
  case $name in '' | '#'*) continue ;; esac
  set --
  for s in $settings; do set -- "$@" "--set=$s"; done
  if [ "$what" = record ]; then
    "$kvloan" run "$base" --set=node.hardware=h200.measured "$@" --plane=cuda --check=sample --quiet --record="$work/$name.log" --format=json >"$work/$name.json" 2>"$work/$name.err" </dev/null ||
      fail "$name: $(tail -n 1 "$work/$name.err")"
    mv "$work/$name.log" "$work/$name.json" "$work/$name.err" "$out"
    continue
  fi
  { [ -e "$out/$name.json" ] && [ -e "$out/$name.log" ]; } || fail "$name: has no record in $out"
  "$kvloan" run "$base" --set=node.hardware=h200.measured "$@" --quiet --format=json >"$work/forecast.json" 2>"$work/err" </dev/null || fail "$name: $(tail -n 1 "$work/err")"
  "$kvloan" replay "$out/$name.log" --format=tsv >/dev/null 2>&1 </dev/null
  replay=$?
  checked=$(sed -n 's/^\([0-9]*\) selected rows read back.* \([0-9]*\) differ$/\1\t\2/p' "$out/$name.err")
  set=held_out
  case $fit in *" $name "*) set=fit ;; esac
  awk -v name="$name" -v set=$set -v replay=$replay -v checked="${checked:-0	0}" '
    FNR == 1 { file++ }
    { line = $0; gsub(/[",{}]/, " ", line); n = split(line, w, /[: ]+/)
      for (i = 1; i < n; i++) if (w[i] ~ /^[a-z_0-9]+$/ && w[i + 1] ~ /^-?[0-9.e+-]+$/) v[file, w[i]] = w[i + 1] }
    END {
      step = 0; fore = 0
      for (k in stall) ;
      split("compute bookkeeping resolve fetch link_wait prefetch_wait", c, " ")
      for (i = 1; i <= 6; i++) { step += v[1, c[i]]; fore += v[2, c[i]] }
      step /= v[1, "steps"]; fore /= v[2, "steps"]
      split("scratch tail borrowed bank hot host", t, " ")
      for (i = 1; i <= 6; i++) { a += v[1, t[i]]; b += v[2, t[i]] }
      for (i = 1; i <= 6 && a > 0 && b > 0; i++) { d = 100 * (v[2, t[i]] / b - v[1, t[i]] / a); d = d < 0 ? -d : d; worst = d > worst ? d : worst }
      x = v[1, "output_throughput_tok_per_s"]; y = v[2, "output_throughput_tok_per_s"]
      printf "%s\t%s\t%s\t%s\t%.3f\t%.3f\t%.2f\t%.1f\t%.1f\t%.2f\t%.2f\t%s\n", name, set, replay == 0 ? "identical" : "DIFFER", replay == 0 ? 0 : "?", step, fore, 100 * (fore / step - 1), x, y, 100 * (y / x - 1), worst, checked
    }' "$out/$name.json" "$work/forecast.json" >>"$work/rows.tsv"
done <"$list"
[ "$what" = record ] && exit 0
mv "$work/rows.tsv" "$out/rows.tsv"
cat "$out/rows.tsv"
for set in fit held_out; do
  for column in 7:step_time 10:throughput 11:largest_tier; do
    awk -F'\t' -v set=$set -v c="${column%%:*}" '$2 == set { d = $c; print d < 0 ? -d : d }' "$out/rows.tsv" | sort -n | awk -v set=$set -v name="${column#*:}" '
      { e[NR] = $1; in3 += $1 <= 3; in2 += $1 <= 2 }
      END { if (NR) printf "%-8s %-12s error, %%: median %.2f, p95 %.2f, worst %.2f; %d of %d within 3, %d within 2\n", set, name, (e[int((NR + 1) / 2)] + e[int(NR / 2) + 1]) / 2,
        e[int(NR * 0.95 + 0.5)], e[NR], in3, NR, in2 }' >&2
  done
done
