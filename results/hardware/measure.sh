# What the scripts of this folder share that run kvloan or read its decision logs; sourced: . "$(dirname "$0")/measure.sh"
#   misused USAGE               the usage on stderr; exit 2
#   fail WORDS...               one line on stderr; exit 1: at the first failure nothing more is run
#   prepare KVLOAN SCENARIOS OUT  they are there, OUT is made; $work is a folder that goes at the end. What is not whole yet lies there, not in OUT
#   step_durations <LOG         a decision log's steps that ended, in the order of their ends, tab-separated:
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

prepare() {
  command -v "$1" >/dev/null 2>&1 || fail "$1: there is no such program"
  [ -d "$2/h200" ] || fail "$2: is no folder of scenarios with h200/ in it"
  made='' work=''
  [ -d "$3" ] || made=$3
  # dash runs no EXIT trap when a signal ends it: each of them is an exit
  trap 'rm -rf "$work"; [ -z "$made" ] || rmdir "$made" 2>/dev/null' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  mkdir -p "$3" || fail "$3: cannot be made"
  work=$(mktemp -d) || fail 'no folder for what is not whole yet'
}

# Two GPUs number their steps alike: a step is a GPU and a number. What is subtracted of this is printed with %.0f: some awks' %d ends at 2^31.
step_durations() {
  awk -v OFS='\t' '
    function or0(text) { return text == "" ? 0 : text }
    function after(word,  i) { for (i = 4; i < NF; i++) if ($i == word) return $(i + 1); return "" }
    $1 == "copy" && $3 != "write_back" { given += $9 }
    $1 == "done" && $4 == "copy" && $6 < 9223372036854775808 { arrived++ } # the tags of write-back have the highest bit
    $1 == "step" {
      asked[$2, $3] = or0(after("items")) OFS or0(after("join")) OFS or0(after("serial")) OFS or0(after("revoked")) OFS or0(given) OFS or0(arrived)
      given = arrived = 0
    }
    $1 == "done" && $4 == "step" && ($5, $6) in asked {
      split(after("times"), t, ","); split(after("stall"), s, ","); split(after("rows"), r, ",") # zeros at their ends are left out
      printf "%s\t%s\t%s", $5, $6, asked[$5, $6]
      for (i = 1; i <= 3; i++) printf "\t%s", or0(t[i])
      for (i = 1; i <= 6; i++) printf "\t%s", or0(s[i])
      printf "\t%s\n", or0(r[1])
      delete asked[$5, $6]
    }'
}
