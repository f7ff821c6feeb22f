# results/hardware/h200-forecast.png: gnuplot results/hardware/h200-forecast.gp, in the root of the repository. Forecast against measured, by run; full points: held out, open: fit set.
set terminal pngcairo size 1100,620 font 'sans,10'
set output 'results/hardware/h200-forecast.png'
set datafile separator "\t"
file = 'results/hardware/h200-forecast.tsv'
stats file every ::1 using 7 nooutput
n = STATS_records
set title '34 runs on one H200: error of the forecast (band: 3 %, which was asked)'
set ylabel 'forecast against measured, %'
set xrange [-0.7:n - 0.3]
set yrange [-5:5]
set xtics rotate by -55 font 'sans,8'
set grid ytics
set key top right
set object 1 rectangle from graph 0, first -3 to graph 1, first 3 fillcolor rgb '#dfe9df' fillstyle solid noborder behind
only(set, want, x) = set eq want ? x : NaN
plot file every ::1 using 0:(only(strcol(2), 'held_out', $7)):xticlabels(1) with points pointtype 7 linecolor rgb '#1f5fa8' title 'step time, held out', \
  '' every ::1 using 0:(only(strcol(2), 'fit', $7)) with points pointtype 6 linecolor rgb '#1f5fa8' title 'step time, fit set', \
  '' every ::1 using 0:(only(strcol(2), 'held_out', $10)) with points pointtype 9 linecolor rgb '#b5501f' title 'throughput of the run, held out', \
  '' every ::1 using 0:(only(strcol(2), 'fit', $10)) with points pointtype 8 linecolor rgb '#b5501f' title 'throughput, fit set', \
  0 linecolor rgb '#888888' notitle
