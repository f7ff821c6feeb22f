#!/usr/bin/env bash
# Completion in bash, as bash calls it; TAP. test_completion.bash PROGRAM SCENARIOS
set -u
case $1 in /*) program=$1 ;; *) program=$PWD/$1 ;; esac
export KVLOAN_SCENARIOS=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir bin
ln -s "$program" bin/kvloan
PATH=$folder/bin:$PATH
touch runs.db 'a file.json'
eval "$(kvloan completion bash)"
count=0
failed=0

# completes LINE WORD...: each word is among what the line can become. A word that begins with ! must not be.
completes()
{
  local line=$1 word found ok=yes
  shift
  COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
  _kvloan
  for word in "$@"; do
    found=
    printf '%s\n' "${COMPREPLY[@]-}" | grep -qxF -- "${word#!}" && found=yes
    case $word in
    !*) [ -z "$found" ] || ok= ;;
    *) [ -n "$found" ] || ok= ;;
    esac
  done
  count=$((count + 1))
  if [ -n "$ok" ]; then
    echo "ok $count - '$line'"
  else
    echo "not ok $count - '$line'"
    printf '# %s\n' "${COMPREPLY[@]-}"
    failed=1
  fi
}

completes 'kvloan ' run scenario trace results explain report help completion --help
completes 'kvloan re' results report reproduce '!run'
completes 'kvloan results ' list show compare export plot '!run'
completes 'kvloan scenario ' check json keys list
completes 'kvloan trace g' gen '!cat'
completes 'kvloan run pub' published-256 '!agent-sample'
completes 'kvloan run r' runs.db
completes 'kvloan run a' 'a file.json' agent-sample
completes 'kvloan run x --' --set= --store= --format= --quiet --help '!--what='
completes 'kvloan run x --f' --format= '!--set='
completes 'kvloan run x --format=' table json tsv
completes 'kvloan run x --format=t' table tsv '!json'
completes 'kvloan run x --plane=h' host
completes 'kvloan run x --store=' runs.db
completes 'kvloan run x --set=policy.' policy.hot_rows= policy.eviction= '!mode='
completes 'kvloan run x --set=mode=' resident fixed adaptive
completes 'kvloan run x --set=mode=f' fixed '!adaptive'
completes 'kvloan run x --set=model=glm' glm-5.1 glm-5.2 '!deepseek-v3.2'
completes 'kvloan run x --set=node.hardware=h' h100 h200 '!b300'
completes 'kvloan trace cat --' --session= --step= --limit= '!--sizes='
completes 'kvloan trace curve --' --preset= --sizes= --warm=
completes 'kvloan trace gen --preset=c' cold-a cold-b '!hot-a'
completes 'kvloan results export --store=runs.db ' latest
completes 'kvloan explain --f' --for= --format=
completes 'kvloan help ex' explain
completes 'kvloan completion ' bash zsh fish
completes 'kvloan nothing ' '!run'
echo "1..$count"
exit $failed
