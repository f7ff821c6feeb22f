#!/bin/sh
# Each picture in docs/ is shown on a page, and each picture that a page shows is there. pictures.sh ROOT, or --rules.
set -eu
if [ "$1" = --rules ]; then
  printf 'picture-unused\npicture-missing\n'
  exit
fi
cd "$1"
shown=$(mktemp)
trap 'rm -f "$shown"' EXIT
# page:line:picture, from the root
for page in README.md docs/*.md; do
  [ -f "$page" ] || continue
  folder=$(dirname "$page")/
  grep -no '!\[[^]]*\]([^)]*)' "$page" | sed -E "s~^([0-9]+):.*\(([^)]*)\)\$~$page:\1:${folder#./}\2~" >>"$shown" || true
done
found=0
for picture in docs/*.png docs/*.svg; do
  if [ -f "$picture" ] && ! grep -q ":$picture\$" "$shown"; then
    echo "$picture:1: [picture-unused] no page shows it"
    found=1
  fi
done
while IFS=: read -r page line picture; do
  if [ ! -f "$picture" ]; then
    echo "$page:$line: [picture-missing] there is no $picture"
    found=1
  fi
done <"$shown"
exit $found
