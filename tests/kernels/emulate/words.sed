# What a C++ compiler cannot read of a preprocessed kernel, in words of cuda_runtime.h (of this folder).
s/extern __shared__ ([a-z0-9_]+) ([a-z_]+)\[\];/\1 *const \2 = (\1 *)emulated::dynamic_shared();/
s/__shared__ (.*) ([a-z_]+)((\[.*\])?);/auto \&\2 = emulated::shared<__COUNTER__, \1\3>();/
s/([A-Za-z_]+(<[^<>]*>)?)<<<(.*)>>>\((.*)\);/emulated::launch(\1, \3)(\4);/
# asm volatile("TEXT" : "=r"(out) : "r"(in), "n"(in) : "memory") -> emulated::ptx("TEXT", out, in, in)
/asm volatile\(/ {
  s/asm volatile\(/emulated::ptx(/
  s/ ?:{1,3} ?"memory"\)/)/
  s/ ?:{1,2} ?"=?[a-z]"\(/, (/g
  s/, "=?[a-z]"\(/, (/g
}
