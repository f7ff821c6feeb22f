#include "sim/plan_write.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"

enum { PATH_MAX_TEXT = 512, WIDTH = 140 };

/* ---- values ---- */

const struct kvl_json *kvl_plan_part(const struct kvl_json *node, const char *path)
{
  while (node != NULL && *path != '\0') {
    char name[128];
    size_t n = strcspn(path, ".");
    (void)snprintf(name, sizeof name, "%.*s", (int)n, path);
    if (node->kind == KVL_JSON_ARRAY) {
      unsigned long at = strtoul(name, NULL, 10);
      for (node = node->child; node != NULL && at > 0; at--) {
        node = node->next;
      }
    } else {
      node = kvl_json_member(node, name);
    }
    path += n + (path[n] == '.');
  }
  return node;
}

double kvl_plan_number(const struct kvl_json *node, const char *path)
{
  node = kvl_plan_part(node, path);
  return node == NULL || node->kind != KVL_JSON_NUMBER ? NAN : strtod(node->text, NULL);
}

const char *kvl_plan_word(const struct kvl_json *node, const char *path)
{
  node = kvl_plan_part(node, path);
  return node == NULL || node->text == NULL ? "" : node->text;
}

int kvl_plan_true(const struct kvl_json *node, const char *path)
{
  node = kvl_plan_part(node, path);
  return node != NULL && node->kind == KVL_JSON_TRUE;
}

/* ---- TSV ---- */

static void put_rows(FILE *out, const struct kvl_json *node, const char *path)
{
  unsigned at = 0;
  switch (node->kind) {
  case KVL_JSON_OBJECT:
  case KVL_JSON_ARRAY:
    for (const struct kvl_json *child = node->child; child != NULL; child = child->next, at++) {
      char below[PATH_MAX_TEXT];
      const char *dot = path[0] != '\0' ? "." : "";
      if (node->kind == KVL_JSON_OBJECT) {
        (void)snprintf(below, sizeof below, "%.300s%s%.180s", path, dot, child->key);
      } else {
        (void)snprintf(below, sizeof below, "%.300s%s%u", path, dot, at);
      }
      put_rows(out, child, below);
    }
    return;
  case KVL_JSON_NULL:
  case KVL_JSON_TRUE:
  case KVL_JSON_FALSE:
  case KVL_JSON_NUMBER:
  case KVL_JSON_STRING:
    kvl_text_tsv_cell(out, path);
    (void)fputc('\t', out);
    kvl_text_tsv_cell(out, node->kind == KVL_JSON_NULL ? "" : node->kind == KVL_JSON_TRUE ? "true" : node->kind == KVL_JSON_FALSE ? "false" : node->text);
    (void)fputc('\n', out);
    return;
  }
}

/* ---- table ---- */

/* Words in lines of WIDTH columns, indented. */
static void put_words(FILE *out, const char *first, const char *text)
{
  size_t indent = strlen(first), column = indent;
  (void)fputs(first, out);
  while (*text != '\0') {
    size_t n = strcspn(text, " ");
    if (column > indent && column + 1 + n > WIDTH) {
      (void)fprintf(out, "\n%*s", (int)indent, "");
      column = indent;
    } else if (column > indent) {
      (void)fputc(' ', out);
      column++;
    }
    for (size_t i = 0; i < n; i++) {
      (void)fputc((unsigned char)text[i] < 0x20 ? '?' : text[i], out);
    }
    column += n;
    text += n + strspn(text + n, " ");
  }
  (void)fputc('\n', out);
}

static const char *human(char text[KVL_TEXT_NUMBER_MAX], const struct kvl_json *node, const char *path)
{
  double value = kvl_plan_number(node, path);
  return isnan(value) ? "-" : kvl_text_human(text, value, value == floor(value) && fabs(value) < 1e9);
}

const char *kvl_plan_margin(char text[KVL_PLAN_MARGIN_TEXT], double percent)
{
  (void)snprintf(text, KVL_PLAN_MARGIN_TEXT, fabs(percent) < 1e5 ? "%+.1f %%" : "%+.2g %%", percent);
  return text;
}

static void put_targets(FILE *out, const struct kvl_json *candidate)
{
  const struct kvl_json *list = kvl_plan_part(candidate, "targets");
  for (const struct kvl_json *t = list == NULL ? NULL : list->child; t != NULL; t = t->next) {
    char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX];
    char margin[KVL_PLAN_MARGIN_TEXT];
    (void)fprintf(out, "  %-22s %10s %-8s target %10s   margin %s%s\n", kvl_plan_word(t, "target"), human(a, t, "is"), kvl_plan_word(t, "unit"), human(b, t, "asked"),
                  kvl_plan_margin(margin, kvl_plan_number(t, "margin_percent")), kvl_plan_true(t, "met") ? "" : "   MISSED");
  }
}

static void put_candidate(FILE *out, const struct kvl_json *c)
{
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX], d[KVL_TEXT_NUMBER_MAX], e[KVL_TEXT_NUMBER_MAX];
  put_words(out, "  ", kvl_plan_word(c, "what"));
  put_targets(out, c);
  (void)fprintf(out, "  output %s tok/s, goodput %s requests/s; %s GPUs, %s of them decode\n", human(a, c, "figures.output_throughput_tok_per_s"),
                human(b, c, "figures.goodput_req_per_s"), human(d, c, "gpus"), human(e, c, "decode_gpus"));
  (void)fprintf(out, "  first token p50 %s, p90 %s, p99 %s s;", human(a, c, "figures.ttft_s_p50"), human(b, c, "figures.ttft_s_p90"), human(d, c, "figures.ttft_s_p99"));
  (void)fprintf(out, " time per token p50 %s, p90 %s, p99 %s ms; request rate p10 %s tok/s\n", human(a, c, "figures.tpot_ms_p50"), human(b, c, "figures.tpot_ms_p90"),
                human(d, c, "figures.tpot_ms_p99"), human(e, c, "figures.request_rate_tok_per_s_p10"));
  bool priced = kvl_plan_part(c, "figures.cost_per_million_output_tokens") != NULL;
  (void)fprintf(out, "  %s per million output tokens%s%s%s\n", human(a, c, priced ? "figures.cost_per_million_output_tokens" : "figures.gpu_hours_per_million_output_tokens"),
                priced ? " (GPU hours at the prices given)" : " in GPU hours (no price given)", kvl_plan_word(c, "figures.cost_over")[0] != '\0' ? ", over " : "",
                kvl_plan_word(c, "figures.cost_over"));
  (void)fprintf(out, "  %s seed%s: met by %s of %s; from %s\n", human(a, c, "seeds.runs"), kvl_plan_number(c, "seeds.runs") == 1 ? "" : "s", human(b, c, "seeds.met"), human(d, c, "seeds.complete"), kvl_plan_word(c, "run"));
}

/* An answer of an earlier build has no fates: then the counts that overlap. */
const char *kvl_plan_fates(char *text, size_t size, const struct kvl_json *root)
{
  bool new = kvl_plan_part(root, "search.fates") != NULL;
  double all = kvl_plan_number(root, "search.candidates"), none = kvl_plan_number(root, new ? "search.fates.cannot_be_run" : "search.impossible"),
         hopeless = kvl_plan_number(root, new ? "search.fates.hopeless" : "search.hopeless"),
         estimated = kvl_plan_number(root, new ? "search.fates.estimated" : "search.screened"), full = kvl_plan_number(root, new ? "search.fates.in_full" : "search.in_full");
  (void)snprintf(text, size, "%.0f candidate%s: %.0f cannot be run, %.0f dropped as hopeless without a single miss, %.0f left after an estimate from miss curves, %.0f run in full", all,
                 all == 1 ? "" : "s", none, hopeless, estimated, full);
  return text;
}

static void put_table(FILE *out, const struct kvl_json *root)
{
  char a[KVL_TEXT_NUMBER_MAX], b[KVL_TEXT_NUMBER_MAX], line[1600];
  const struct kvl_json *part;
  (void)snprintf(line, sizeof line, "%s, %s", kvl_plan_word(root, "asked.model"), kvl_plan_word(root, "asked.workload"));
  put_words(out, "Asked         ", line);
  part = kvl_plan_part(root, "asked.target");
  for (const struct kvl_json *t = part == NULL ? NULL : part->child; t != NULL; t = t->next) {
    (void)fprintf(out, "  %-22s %s\n", t->key, t->text);
  }
  part = kvl_plan_part(root, "asked.nodes");
  for (const struct kvl_json *n = part == NULL || part->child == NULL || part->child->next == NULL ? NULL : part->child; n != NULL; n = n->next) {
    (void)snprintf(line, sizeof line, "node %s%s%s", kvl_plan_word(n, "name"), isnan(kvl_plan_number(n, "gpu_hour")) ? "" : ", a GPU hour at ",
                   isnan(kvl_plan_number(n, "gpu_hour")) ? "" : kvl_plan_word(n, "gpu_hour"));
    put_words(out, "  ", line);
  }
  (void)fputc('\n', out);
  put_words(out, "Answer        ", kvl_plan_word(root, "sentence"));
  part = kvl_plan_part(root, "notes");
  for (const struct kvl_json *n = part == NULL ? NULL : part->child; n != NULL; n = n->next) {
    put_words(out, "  note: ", n->text == NULL ? "" : n->text);
  }
  part = kvl_plan_part(root, "recommendation");
  if (part != NULL && part->kind == KVL_JSON_OBJECT) {
    (void)fputs(kvl_plan_true(root, "met") ? "\nRecommendation\n" : "\nClosest\n", out);
    put_candidate(out, part);
  }
  part = kvl_plan_true(root, "met") || part == NULL || part->kind != KVL_JSON_OBJECT ? NULL : kvl_plan_part(root, "reach");
  if (part != NULL && part->child != NULL) {
    (void)fputs("\nWhat can be reached at all, each target by itself\n", out);
    for (const struct kvl_json *t = part->child; t != NULL; t = t->next) {
      char d[KVL_TEXT_NUMBER_MAX];
      (void)fprintf(out, "  %-22s asked %s, best of the runs in full %s, best without a single miss %s %s\n", kvl_plan_word(t, "target"), human(a, t, "asked"),
                    human(b, t, "best_in_full"), human(d, t, "best_without_a_miss"), kvl_plan_word(t, "unit"));
    }
  }
  part = kvl_plan_part(root, "runner_up");
  if (part != NULL && part->kind == KVL_JSON_OBJECT) {
    (void)fputs("\nRunner-up\n", out);
    put_candidate(out, part);
  }
  if (kvl_plan_part(root, "why") != NULL) {
    (void)fputs("\nWhy not more\n", out);
    (void)snprintf(line, sizeof line, "What binds: %s.", kvl_plan_word(root, "why.binds"));
    put_words(out, "  ", line);
    put_words(out, "  ", kvl_plan_word(root, "why.sessions"));
    put_words(out, "  ", kvl_plan_word(root, "why.run"));
  }
  if (kvl_plan_word(root, "headroom.sentence")[0] != '\0') {
    put_words(out, "  headroom: ", kvl_plan_word(root, "headroom.sentence"));
  }
  part = kvl_plan_part(root, "sensitivity");
  if (part != NULL && part->child != NULL) {
    (void)fprintf(out, "\nHow sure: the %s with one thing changed\n  %-46s %-8s %10s %12s %12s %12s\n", kvl_plan_true(root, "met") ? "recommendation" : "closest candidate", "", "target", "margin", "output tok/s", "ttft p90 s", "rate p10");
    for (const struct kvl_json *v = part->child; v != NULL; v = v->next) {
      char d[KVL_TEXT_NUMBER_MAX];
      if (kvl_plan_part(v, "reason") != NULL) {
        (void)fprintf(out, "  %-46s %s\n", kvl_plan_word(v, "changed"), kvl_plan_word(v, "reason"));
        continue;
      }
      char margin[KVL_PLAN_MARGIN_TEXT];
      (void)fprintf(out, "  %-46s %-8s %10s %12s %12s %12s\n", kvl_plan_word(v, "changed"), kvl_plan_true(v, "met") ? "met" : "MISSED",
                    kvl_plan_margin(margin, kvl_plan_number(v, "worst_margin_percent")), human(a, v, "output_throughput_tok_per_s"), human(b, v, "ttft_s_p90"), human(d, v, "request_rate_tok_per_s_p10"));
    }
  }
  if (kvl_plan_part(root, "buy") != NULL) {
    (void)fputs("\nTo buy\n", out);
    (void)fprintf(out, "  GPUs          %s, %s of them for decoding\n", human(a, root, "buy.gpus"), human(b, root, "buy.decode_gpus"));
    put_words(out, "  host memory   ", kvl_plan_word(root, "buy.host_memory"));
    put_words(out, "  host link     ", kvl_plan_word(root, "buy.link"));
  }
  part = kvl_plan_part(root, "engines");
  for (const struct kvl_json *e = part == NULL ? NULL : part->child; e != NULL; e = e->next) {
    (void)fprintf(out, "%s  %s\n", e == part->child ? "\nNearest flags\n" : "", kvl_plan_word(e, "engine"));
    (void)fprintf(out, "    %s\n", kvl_plan_word(e, "flags"));
    put_words(out, "    cannot express: ", kvl_plan_word(e, "cannot"));
    put_words(out, "    checked:        ", kvl_plan_word(e, "checked"));
  }
  (void)fprintf(out, "\nSearch        %s\n", kvl_plan_fates(line, sizeof line, root));
  if (kvl_plan_number(root, "search.screening_off_by_percent.compared") > 0) {
    (void)fprintf(out, "              screening was off by %.1f %% in output, %.1f %% in first token p90, %.1f %% in rate p10 (median of %s run%s in full)\n",
                  kvl_plan_number(root, "search.screening_off_by_percent.output_throughput"), kvl_plan_number(root, "search.screening_off_by_percent.ttft_p90"),
                  kvl_plan_number(root, "search.screening_off_by_percent.rate_p10"), human(a, root, "search.screening_off_by_percent.compared"),
                  kvl_plan_number(root, "search.screening_off_by_percent.compared") == 1 ? "" : "s");
  }
  if (kvl_plan_true(root, "search.left_out_for_effort")) {
    (void)fprintf(out, "              effort \"%s\" left some runs out: \"effort\": \"thorough\" makes them\n", kvl_plan_word(root, "search.effort"));
  }
}

int kvl_plan_write(FILE *out, enum kvl_format format, const char *answer, struct kvl_err *err)
{
  struct kvl_arena arena = {0};
  struct kvl_json *root = NULL;
  int rc = kvl_json_parse(&arena, answer, strlen(answer), "the plan's answer", &root, err);
  if (rc == 0 && kvl_json_member(root, "plan") == NULL) {
    rc = kvl_err_set(err, -EINVAL, "not the answer of a plan");
  }
  if (rc == 0) {
    switch (format) {
    case KVL_FORMAT_JSON:
      (void)fputs(answer, out);
      break;
    case KVL_FORMAT_TSV:
      (void)fputs("key\tvalue\n", out);
      put_rows(out, root, "");
      break;
    case KVL_FORMAT_TABLE:
      put_table(out, root);
      break;
    }
  }
  kvl_arena_free(&arena);
  return rc;
}
