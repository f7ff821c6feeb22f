# What the shell tests share; sourced: . "$(dirname "$0")/../base/tap.sh". A test sets `program`, works in a folder of its own and ends with `finish`.
#   absolute PATH                  PATH, also right after cd
#   pass_or_fail STATUS WORDS      one TAP line; on failure the files out and err are shown
#   run ARGUMENTS...               the program: leaves out, err, $code. Quiet in a pipe, nothing on stdin
#   expect CODE TEXT ARGUMENTS...  TEXT is on stdout with code 0; else as refuses
#   refuses CODE WORDS ARGUMENTS...  it ends with CODE, WORDS in its one line on stderr ($lines, where more is right), nothing on stdout
count=0 failed=0
# A test has its clean-up in a trap on EXIT, which dash does not run when a signal ends it
trap 'exit 130' INT
trap 'exit 143' TERM

absolute() {
  case $1 in
  /*) echo "$1" ;;
  *) echo "$PWD/$1" ;;
  esac
}

pass_or_fail() {
  count=$((count + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $count - $2"
  else
    echo "not ok $count - $2"
    sed 's/^/# /' out err 2>/dev/null | head -n 40
    failed=1
  fi
}

run() {
  "$program" "$@" >out 2>err </dev/null
  code=$?
}

refuses() {
  want=$1 words=$2
  shift 2
  run "$@"
  [ "$code" -eq "$want" ] && [ "$(wc -l <err)" -le "${lines:-1}" ] && [ -s err ] && [ ! -s out ] && grep -qF -- "$words" err
  pass_or_fail $? "refuses: $*"
}

expect() {
  if [ "$1" -ne 0 ]; then
    refuses "$@"
    return
  fi
  text=$2
  shift 2
  run "$@"
  [ "$code" -eq 0 ] && grep -qF -- "$text" out
  pass_or_fail $? "$*"
}

finish() {
  echo "1..$count"
  exit $failed
}
