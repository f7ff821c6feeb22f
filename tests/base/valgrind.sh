#!/bin/sh
# The test set-up "valgrind": runs a test program under valgrind. The shell of a script is not ours to check: it would only run once more.
case $1 in
*/sh | */bash | *.sh)
  echo "valgrind.sh: a script: give it the suite \"command\", which this set-up leaves out unless --suite is given" >&2
  exit 99
  ;;
*) exec valgrind -q --error-exitcode=99 --leak-check=full "$@" ;;
esac
