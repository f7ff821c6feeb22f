#!/bin/sh
# The published experiment on one GPU, results/hardware/h200-headline.md. Two halves, because a GPU is lent by the minute:
#   h200-headline.sh record KVLOAN SCENARIOS OUT SECONDS   on the GPU machine: the runs of h200-headline.txt (or of $RUNS) that OUT has not yet, in their order, none that would end
#                                                          after SECONDS. OUT/runs.tsv grows by each run's summary as it ends, OUT/logs.tar by its decision log.
#                                                          When a run fails, or a byte differs in it, nothing more is run.
#   h200-headline.sh compare KVLOAN SCENARIOS OUT          anywhere: forecasts of the same runs (those of $RUNS, if it is set), replay of the logs; one row a run (TSV).
#                                                          A gain whose resident run is not among what it needs is blank
#   h200-headline.sh plot TSV PNG                          the picture, with gnuplot
# Needs 30 GB of pinned memory and 60 GB of HBM.
# Each stops at the first run that fails; of that one nothing is left in OUT.
set -u
# shellcheck source=results/hardware/measure.sh disable=SC1091
. "$(dirname "$0")/measure.sh"
usage='h200-headline.sh record KVLOAN SCENARIOS OUT SECONDS, compare KVLOAN SCENARIOS OUT, or plot TSV PNG'
case $#:${1-} in 5:record | 4:compare | 3:plot) ;; *) misused "$usage" ;; esac
if [ "$1" = plot ]; then
  [ -r "$2" ] || fail "$2: cannot be read"
  gnuplot <<END
set terminal pngcairo size 1200,520 font "sans,11"
set output "$3"
set datafile separator "\t"
set logscale x 2
set xrange [6.5:160]
set yrange [-8:30]
set xtics (8, 16, 32, 64, 128)
set grid y
set xlabel "sessions a GPU, closed loop (64: shorter answers)"
set ylabel "output throughput against resident, %"
set key top left reverse Left
set multiplot layout 1,2
rows(drafts, mode) = sprintf("<grep '^[0-9]*-%s-%s' '%s' | sed 's/-/\t/' | sort -n", drafts, mode, "$2")
set title "no speculation"
set object 1 rectangle from 8,-7 to 32,-3 fc rgb "#f2c0a0" fs solid 0.6 noborder
plot 0 lc "gray" notitle, NaN w boxes fc "#f2c0a0" fs solid title "published, adaptive (8 to 32: range; 128: run and repeat)", \
  rows("off", "adaptive") u 1:8 w l dt 2 lc "#c05010" title "simulator, published cost profile", "" u 1:7 w l lc "#2060a0" title "simulator, H200 profile", \
  "" u 1:6 w p pt 7 ps 1.4 lc "#2060a0" title "measured, adaptive", rows("off", "fixed") u 1:6 w p pt 6 ps 1.4 lc "#208040" title "measured, fixed", \
  '-' u 1:2 w p pt 11 ps 1.6 lc "#c05010" notitle
128	25.4
128	26.6
e
unset object 1
set title "with DSpark"
plot 0 lc "gray" notitle, rows("on", "adaptive") u 1:8 w l dt 2 lc "#c05010" notitle, "" u 1:7 w l lc "#2060a0" notitle, "" u 1:6 w p pt 7 ps 1.4 lc "#2060a0" notitle, \
  rows("on", "fixed") u 1:6 w p pt 6 ps 1.4 lc "#208040" notitle, '-' u 1:2 w p pt 11 ps 1.6 lc "#c05010" title "published"
128	23.0
128	20.5
e
END
  exit
fi
case ${5:-0} in '' | *[!0-9]*) misused "$usage" ;; esac
what=$1 kvloan=$2 scenarios=$3 out=$4 seconds=${5:-0}
list=${RUNS:-$(dirname "$0")/h200-headline.txt}
scenario=$scenarios/h200/headline.json
prepare "$kvloan" "$scenarios" "$out"
[ "$what" = record ] || [ -s "$out/runs.tsv" ] || fail "$out: has no runs.tsv: nothing was recorded"
runs=$out/runs.tsv
[ "$what" = record ] || runs=$work/runs.tsv
begin=$(date +%s)

settings() { # SESSIONS DRAFTS MODE REQUESTS TOKENS
  echo "--set=workload.concurrency=$1 --set=mode=$3 --set=workload.requests=$4 --set=workload.output_tokens=$5 ${MORE:-}"
  [ "$2" = off ] || echo "--set=speculation=deepseek-v4.1-flash.dspark"
}
add() { # NAME WHO <TSV: key, value, unit
  awk -v name="$1" -v who="$2" 'NR > 1 { printf "%s\t%s\t%s\t%s\n", name, who, $1, $2 }' >>"$runs"
}

record() { # NAME SETTINGS...
  name=$1
  shift
  "$kvloan" run "$scenario" "$@" --plane=cuda --check=sample --quiet --record="$work/$name.log" --format=tsv >"$work/summary" 2>"$work/err" </dev/null ||
    fail "$name: $(tail -n 1 "$work/err")"
  sed -n 's/^\([0-9]*\) selected rows read back.* \([0-9]*\) differ$/rows_checked\t\1\nmismatches\t\2/p' "$work/err" >>"$work/summary"
  { gzip -f "$work/$name.log" && tar -rf "$out/logs.tar" -C "$work" "$name.log.gz"; } || fail "$name: its log cannot be kept in $out"
  add "$name" measured <"$work/summary"
  awk -v name="$name" '{ v[$1] = $2 } END { printf "%s: %.1f tok/s, batch %d to %d, %.1f s; %d rows read back, %d differ\n", name, v["output_throughput_tok_per_s"], v["decode_batch_p50"],
      v["decode_batch_max"], v["simulated_s"], v["rows_checked"], v["mismatches"]; exit v["mismatches"] != 0 }' "$work/summary"
}

# Steps of exactly 44 requests that nobody joined: how many, and their mean in ms.
steps_of_44() { # STEPS
  awk '$3 == 44 && $4 == 0 { sum += $11 - $10; count++ }
    END { printf "steps_of_44\t%d\nstep_of_44_ms\t%.3f\n", count, count == 0 ? 0 : sum / count / 1e6 }' "$1"
}

forecast() { # NAME SETTINGS...
  name=$1
  shift
  grep -q "^$name	measured	simulated_s" "$runs" || return 0
  "$kvloan" run "$scenario" "$@" --quiet --format=tsv >"$work/forecast" 2>"$work/err" </dev/null || fail "$name: $(tail -n 1 "$work/err")"
  "$kvloan" run "$scenario" --set=costs=deepseek-v4.1-flash.b300.published --set=node.hardware=b300 "$@" --quiet --format=tsv >"$work/published" 2>"$work/err" </dev/null ||
    fail "$name: $(tail -n 1 "$work/err")"
  add "$name" forecast <"$work/forecast"
  add "$name" published <"$work/published"
  tar -xOf "$out/logs.tar" "$name.log.gz" | gzip -dc >"$work/log"
  step_durations "$name: its log" <"$work/log" >"$work/steps"
  "$kvloan" replay "$work/log" --format=tsv >/dev/null 2>&1 </dev/null
  replay=$?
  { echo key; printf 'replay_differs\t%d\n' $replay; steps_of_44 "$work/steps"; } | add "$name" measured
}

[ -r "$list" ] || fail "$list: cannot be read"
if [ "$what" = compare ]; then # once more from what was measured
  grep '	measured	' "$out/runs.tsv" | grep -v '	replay_differs	\|	steps*_of_44' >"$runs"
fi
while read -r sessions drafts mode requests tokens takes; do
  case $sessions in '' | '#'*) continue ;; esac
  name=$sessions-$drafts-$mode
  # shellcheck disable=SC2046
  set -- $(settings "$sessions" "$drafts" "$mode" "$requests" "$tokens")
  if [ "$what" = compare ]; then
    forecast "$name" "$@"
    continue
  fi
  grep -q "^$name	measured	simulated_s" "$runs" 2>/dev/null && continue
  if [ $(($(date +%s) - begin + takes)) -gt "$seconds" ]; then
    echo "$name and what comes after it: no time"
    exit 3
  fi
  record "$name" "$@" || exit 1
done <"$list"
[ "$what" = compare ] || exit 0
cp "$runs" "$out/runs.tsv"

awk -F '\t' -v OFS='\t' '
  !($1 in seen) { seen[$1] = 1; order[++n] = $1 }
  { v[$1, $2, $3] = $4 }
  function gain(name, who, base) { base = name; sub(/(fixed|adaptive)$/, "resident", base)
    return v[base, who, "output_throughput_tok_per_s"] == 0 || v[name, who, "output_throughput_tok_per_s"] == "" ? "" : sprintf("%.2f", 100 * (v[name, who, "output_throughput_tok_per_s"] / v[base, who, "output_throughput_tok_per_s"] - 1)) }
  function step(name, who,  c, i, sum) { split("compute bookkeeping resolve fetch link_wait prefetch_wait", c, " ")
    for (i = 1; i <= 6; i++) sum += v[name, who, "stall_ms_by_cause." c[i]]
    return v[name, who, "steps"] == 0 ? "" : sprintf("%.3f", sum / v[name, who, "steps"]) }
  END {
    print "run", "tok_s", "forecast_tok_s", "published_profile_tok_s", "gain", "forecast_gain", "published_profile_gain", "batch_p50", "forecast_batch_p50", "batch_max", "sessions_max",
      "rate_p50", "forecast_rate_p50", "ttft_p90_s", "forecast_ttft_p90_s", "step_ms", "forecast_step_ms", "steps_of_44", "step_of_44_ms", "seconds", "rows_fetched", "pages_revoked",
      "rows_checked", "mismatches", "replay_differs"
    for (i = 1; i <= n; i++) { r = order[i]; m = "measured"; f = "forecast"; t = "output_throughput_tok_per_s"
      if (v[r, f, t] == "") continue # recorded, and not in $RUNS
      printf "%s\t%.1f\t%.1f\t%.1f\t%s\t%s\t%s", r, v[r, m, t], v[r, f, t], v[r, "published", t], gain(r, m), gain(r, f), gain(r, "published")
      print "", v[r, m, "decode_batch_p50"], v[r, f, "decode_batch_p50"], v[r, m, "decode_batch_max"], v[r, m, "sessions_per_decode_gpu_max"],
        sprintf("%.2f", v[r, m, "request_rate_tok_per_s_p50"]), sprintf("%.2f", v[r, f, "request_rate_tok_per_s_p50"]), sprintf("%.2f", v[r, m, "ttft_s_p90"]), sprintf("%.2f", v[r, f, "ttft_s_p90"]),
        step(r, m), step(r, f), v[r, m, "steps_of_44"], v[r, m, "step_of_44_ms"], sprintf("%.2f", v[r, m, "simulated_s"]), v[r, m, "rows_fetched"], v[r, m, "pages_revoked"],
        v[r, m, "rows_checked"] + 0, v[r, m, "mismatches"] + 0, v[r, m, "replay_differs"] }
  }' "$out/runs.tsv"
