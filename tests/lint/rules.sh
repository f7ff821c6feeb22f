# Shared by the lint scripts: which files there are, and how a rule is applied. Sourced with the root of the tree as working directory.

# Files that belong to the project, by pattern; build folders and what git ignores are none of them.
kvl_files()
{
  find backend docs kernels results scenarios sim tests traces .ci ./* -maxdepth 0 -print 2>/dev/null | sed 's|^\./||' | sort -u |
    while read -r top; do
      case $top in
      b | b-* | build* | out | *.db) ;;
      *) find "$top" -type f -name "$1" ;;
      esac
    done | sort -u
}

# kvl_rule NAME SCOPE EXCEPT PATTERN REASON < lines of path:line:text
# Prints the lines whose path is SCOPE (and not EXCEPT, unless that is -) and whose text matches PATTERN; all are regular expressions.
kvl_rule()
{
  grep -E "^($2):[0-9]+:" | if [ "$3" = - ]; then cat; else grep -vE "^($3):[0-9]+:"; fi | grep -E "^[^:]*:[0-9]+:.*($4)" |
    sed -E "s~^([^:]*:[0-9]+):(.*)~\1: [$1] $5:\2~"
}

# Applies every rule of the table (name ; scope ; except ; pattern ; reason) to the file of lines; 1 when any line is printed.
kvl_apply()
{
  table=$1 lines=$2 found=0
  while IFS=';' read -r name scope except pattern reason; do
    hits=$(kvl_rule "$name" "$scope" "$except" "$pattern" "$reason" <"$lines")
    if [ -n "$hits" ]; then
      printf '%s\n' "$hits"
      found=1
    fi
  done <"$table"
  return $found
}
