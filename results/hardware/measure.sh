# What the scripts of this folder that run kvloan share; sourced: . "$(dirname "$0")/measure.sh"
#   misused USAGE               the usage on stderr; exit 2
#   fail WORDS...               one line on stderr; exit 1: at the first failure nothing more is run
#   prepare KVLOAN SCENARIOS OUT  they are there, OUT is made; $work is a folder that goes at the end. What is not whole yet lies there, not in OUT
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
  made=
  [ -d "$3" ] || made=$3
  mkdir -p "$3" || fail "$3: cannot be made"
  work=$(mktemp -d) || fail 'no folder for what is not whole yet'
  trap 'rm -rf "$work"; [ -z "$made" ] || rmdir "$made" 2>/dev/null' EXIT
}
