/* The style sheet. Pictures carry light colours; the rules made here turn each of them into one that suits the dark. */
#include "results/report_internal.h"

/* What a picture may contain, light and dark. */
static const struct {
  const char *light, *dark;
} colours[] = {
  {"#0072b2", "#5aaee8"}, {"#e69f00", "#f2b63c"}, {"#009e73", "#35c59b"}, {"#d55e00", "#ff8a4c"}, {"#cc79a7", "#e59cc3"},
  {"#56b4e9", "#8fd0f7"}, {"#8a7a00", "#cbbb45"}, {"#7a5195", "#b58ad6"}, {"#4d4d4d", "#aab2bd"}, {"#b9bec5", "#59626e"}, /* kvl_report_colour */
  {"#222222", "#dde2e8"}, {"#444444", "#7d8794"}, {"#666666", "#7d8794"}, {"#dddddd", "#2f3741"}, {"#eeeeee", "#232a32"}, /* text, axes, grid */
};

static const char sheet[] =
  ":root{color-scheme:light dark;--paper:#fff;--ink:#1b2430;--soft:#5a6675;--line:#dfe4ea;--tint:#f5f7f9;--accent:#00629b;--note:#fff6e0;--note-line:#e0a100}\n"
  "*{box-sizing:border-box}\n"
  "html{-webkit-text-size-adjust:100%;text-size-adjust:100%}\n"
  "body{margin:0 auto;padding:0 1.25rem 4rem;max-width:58rem;background:var(--paper);color:var(--ink);"
  "font:1rem/1.55 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}\n"
  "header{padding-top:2.2rem}\n"
  ".kind{margin:0;color:var(--accent);font-size:.8rem;font-weight:600;letter-spacing:.08em;text-transform:uppercase}\n"
  "h1{margin:.15rem 0 .3rem;font-size:1.9rem;line-height:1.2;overflow-wrap:anywhere}\n"
  ".subtitle{margin:0 0 1rem;color:var(--soft);overflow-wrap:anywhere}\n"
  "nav{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;padding:.6rem 0;border-top:1px solid var(--line);border-bottom:1px solid var(--line);font-size:.9rem}\n"
  "a{color:var(--accent);text-decoration:none}\na:hover{text-decoration:underline}\n"
  "h2{margin:2.6rem 0 .7rem;font-size:1.3rem;line-height:1.25}\n"
  "h3{margin:0 0 .2rem;font-size:1.02rem}\n"
  "p{margin:.6rem 0;max-width:46rem;overflow-wrap:anywhere}\n"
  ".lead{font-size:1.2rem;line-height:1.5}\n"
  ".note{padding:.6rem .9rem;border-left:4px solid var(--note-line);background:var(--note);border-radius:0 4px 4px 0}\n"
  ".numbers{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.7rem;margin:1.2rem 0}\n"
  ".numbers div{padding:.7rem .85rem;border:1px solid var(--line);border-radius:8px;background:var(--tint)}\n"
  ".numbers dt{color:var(--soft);font-size:.82rem}\n.numbers dd{margin:0}\n"
  ".numbers b{font-size:1.45rem;font-weight:650;font-variant-numeric:tabular-nums}\n"
  ".numbers span{color:var(--soft);font-size:.9rem}\n.numbers small{display:block;color:var(--soft);font-size:.8rem;line-height:1.35}\n"
  ".scroll{overflow-x:auto;margin:.8rem 0}\n"
  "table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}\n"
  "th,td{padding:.32rem .8rem .32rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;white-space:nowrap}\n"
  "thead th{color:var(--soft);font-weight:600;border-bottom-width:2px;white-space:normal;vertical-align:bottom;min-width:3.6rem}\ntbody th{font-weight:400}\n"
  "tbody th:first-child,thead th:first-child{position:sticky;left:0;background:var(--paper)}\n"
  ".r{text-align:right}\ntd:last-child:not(.r){white-space:normal;min-width:14rem}\n"
  "pre{margin:.8rem 0;padding:.8rem 1rem;overflow-x:auto;background:var(--tint);border:1px solid var(--line);border-radius:6px;"
  "font:.85rem/1.5 ui-monospace,\"SF Mono\",Menlo,Consolas,\"DejaVu Sans Mono\",monospace}\n"
  "details{margin-top:1.6rem;border-top:1px solid var(--line)}\nsummary{padding:.8rem 0;cursor:pointer;font-size:1.1rem;font-weight:600}\n"
  "figure{margin:2rem 0}\nfigcaption{color:var(--soft);max-width:46rem;margin-bottom:.5rem}\n"
  "figure svg{display:block;width:100%;height:auto}\n"
  "svg text{font-family:inherit}\n"
  ".key{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;margin:.3rem 0 .4rem;padding:0;list-style:none;font-size:.88rem}\n"
  ".key svg{display:inline-block;width:22px;height:12px;margin-right:.4rem;vertical-align:-1px}\n"
  ".narrow{display:none}\n"
  "@media(max-width:40rem){body{padding:0 1rem 3rem}h1{font-size:1.5rem}h2{margin-top:2.1rem}.lead{font-size:1.08rem}.wide{display:none}.narrow{display:block}"
  ".numbers{grid-template-columns:repeat(2,1fr);gap:.5rem}.numbers div{padding:.55rem .65rem}.numbers b{font-size:1.2rem}table{font-size:.86rem}}\n";

static const char print[] =
  "@media print{body{max-width:none;padding:0;font-size:10pt}nav{display:none}.wide{display:block}.narrow{display:none}figure,tr,.numbers div{break-inside:avoid}"
  "h2,h3{break-after:avoid}.scroll{overflow:visible}pre{white-space:pre-wrap;overflow-wrap:anywhere}td,th{white-space:normal}"
  "details>*{display:block}details::details-content{content-visibility:visible;height:auto}}\n";

static void write_dark_colours(FILE *out)
{
  static const char *const properties[] = {"fill", "stroke", "color"};
  for (size_t c = 0; c < sizeof colours / sizeof colours[0]; c++) {
    for (size_t p = 0; p < 3; p++) {
      (void)fprintf(out, "svg [%s=\"%s\"]{%s:%s}\n", properties[p], colours[c].light, properties[p], colours[c].dark);
    }
  }
}

void kvl_report_style(FILE *out)
{
  (void)fputs("<style>\n", out);
  (void)fputs(sheet, out);
  (void)fputs("@media screen and (prefers-color-scheme:dark){\n"
              ":root{--paper:#14191f;--ink:#e3e8ee;--soft:#9ba7b4;--line:#2c343e;--tint:#1b2129;--accent:#62b5ee;--note:#2d2614;--note-line:#c99a2e}\n", out);
  write_dark_colours(out);
  (void)fputs("}\n", out);
  (void)fputs(print, out);
  (void)fputs("</style>\n", out);
}
