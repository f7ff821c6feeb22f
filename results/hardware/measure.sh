# What the scripts of this folder share that run kvloan or read its decision logs; sourced: . "$(dirname "$0")/measure.sh"
#   misused USAGE               the usage on stderr; exit 2
#   fail WORDS...               one line on stderr; exit 1: at the first failure nothing more is run
#   workplace                   $work is a folder that goes at the end. What is not whole yet lies there
#   prepare KVLOAN SCENARIOS OUT  they are there, OUT is made, and a workplace; what is not whole yet lies there, not in OUT
#   step_durations NAME <LOG >TSV  a decision log's steps that ended, in the order of their ends, tab-separated (below). A log that is not whole, has no step or a line without its parts:
#                               one line on stderr that begins with NAME; exit 1, so not in a pipe, where that ends nothing
#                               1 GPU, 2 number, 3 requests, 4 joined, 5 pages copied before it; since the step before: 6 pages revoked, 7 given back, 8 copies of pages arrived;
#                               9 submitted, 10 begun, 11 ended; ns of 12 compute, 13 bookkeeping, 14 resolve, 15 fetch, 16 link_wait, 17 prefetch_wait; 18 rows fetched
misused() {
  echo "usage: $1" >&2
  exit 2
}

fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

made='' # a folder that goes too when nothing is in it
workplace() {
  work=''
  # dash runs no EXIT trap when a signal ends it: each of them is an exit
  trap 'rm -rf "$work"; [ -z "$made" ] || rmdir "$made" 2>/dev/null' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  work=$(mktemp -d) || fail 'no folder for what is not whole yet'
}

prepare() {
  command -v "$1" >/dev/null 2>&1 || fail "$1: there is no such program"
  [ -d "$2/h200" ] || fail "$2: is no folder of scenarios with h200/ in it"
  [ -d "$3" ] || made=$3
  workplace
  mkdir -p "$3" || fail "$3: cannot be made"
}

# Two GPUs number their steps alike: a step is a GPU and a number. What is subtracted of this is printed with %.0f: some awks' %d ends at 2^31.
# A dot is put behind the log: it is a line of its own if the line before it has its end, which awk does not tell.
step_durations() {
  { cat && echo .; } 2>/dev/null | name=$1 script=${0##*/} awk -v OFS='\t' '
    function bad(place, why) { printf "%s: %s%s: %s\n", ENVIRON["script"], ENVIRON["name"], place, why >"/dev/stderr"; failed = 1; exit 1 }
    function or0(text) { return text == "" ? 0 : text }
    function after(word,  i) { # one number or several, never none: a list of zeros is written 0
      for (i = 4; i < NF; i++) if ($i == word && $(i + 1) ~ /^[0-9]+(,[0-9]+)*$/) return $(i + 1)
      bad(":" NR, "no number after \"" word "\": the log is cut short, or was changed")
    }
    NR == 1 && $1 != "kvloan-log" { bad("", "is no decision log") }
    { whole = ended && $0 == "."; ended = $1 == "end" && NF == 4 }
    $1 == "copy" && $3 != "write_back" { after("moves"); given += $9 }
    $1 == "done" && $4 == "copy" && $6 < 9223372036854775808 { arrived++ } # the tags of write-back have the highest bit
    $1 == "step" {
      asked[$2, $3] = after("items") OFS after("join") OFS after("serial") OFS after("revoked") OFS or0(given) OFS or0(arrived)
      given = arrived = 0
      steps++
    }
    $1 == "done" && $4 == "step" && ($5, $6) in asked {
      split(after("times"), t, ","); split(after("stall"), s, ","); split(after("rows"), r, ",") # zeros at their ends are left out
      printf "%s\t%s\t%s", $5, $6, asked[$5, $6]
      for (i = 1; i <= 3; i++) printf "\t%s", or0(t[i])
      for (i = 1; i <= 6; i++) printf "\t%s", or0(s[i])
      printf "\t%s\n", or0(r[1])
      delete asked[$5, $6]
    }
    END {
      if (!failed && !whole) bad("", "the log is cut short: its last line is not whole, or not that of its end")
      if (!failed && !steps) bad("", "no step is in the log")
      exit failed
    }' || exit 1
}
