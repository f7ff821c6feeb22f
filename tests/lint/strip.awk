# Prints C sources as path:line:text without comments and without what is in quotes, so that rules look at code only.
FNR == 1 { inside = 0 }
{
  rest = $0
  text = ""
  while (rest != "") {
    if (inside) {
      end = index(rest, "*/")
      if (end == 0) { break }
      inside = 0
      text = text " "
      rest = substr(rest, end + 2)
    } else if (match(rest, /\/\*|\/\/|"|'/)) {
      mark = substr(rest, RSTART, RLENGTH)
      text = text substr(rest, 1, RSTART - 1)
      rest = substr(rest, RSTART + RLENGTH)
      if (mark == "//") { break }
      if (mark == "/*") { inside = 1; continue }
      text = text mark mark
      closing = mark == "\"" ? "^([^\"\\\\]|\\\\.)*\"" : "^([^'\\\\]|\\\\.)*'"
      if (!match(rest, closing)) { break }
      rest = substr(rest, RLENGTH + 1)
    } else {
      text = text rest
      rest = ""
    }
  }
  print FILENAME ":" FNR ":" text
}
