/* Writes a store with made-up runs that look like real ones: three modes over concurrency, four decode GPUs' worth of samples. For the tests of the
 * command and of the pictures; the numbers mean nothing.
 *
 *   make_store FILE sweep            the three modes at 16, 32, 64, 128, 256 concurrent
 *   make_store FILE incomplete       begins a run, stores a part of it and dies */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/rng.h"
#include "results/store.h"

static const char *const modes[] = {"resident", "fixed", "adaptive"};

static uint64_t ns(double s)
{
  return (uint64_t)(s * 1e9);
}

/* A closed loop in a few lines: `batch_max` sessions decode at once, a step takes base + slope x batch. */
static int write_run(struct kvl_store *store, unsigned mode, uint32_t concurrency, struct kvl_err *err)
{
  static const uint32_t batch_max[] = {42, 210, 256};
  char scenario[256];
  (void)snprintf(scenario, sizeof scenario, "{\"name\":\"published\",\"mode\":{\"value\":\"%s\",\"origin\":\"--set\"},\"policy\":{\"hot_rows\":%d},"
                 "\"workload\":{\"kind\":\"closed\",\"concurrency\":%u},\"seed\":1}", modes[mode], mode == 0 ? 0 : 4096, concurrency);
  struct kvl_run_info info = {.name = "published", .mode = modes[mode], .plane = "model", .scenario_json = scenario, .build = "0.1.0 (test)",
                              .command = "make_store", .seed = 1};
  struct kvl_rng rng;
  kvl_rng_init(&rng, 1, "made-up run", mode * 1000 + concurrency);
  int64_t run = 0;
  int code = kvl_store_run_begin(store, &info, &run, err);
  uint32_t batch = concurrency < batch_max[mode] ? concurrency : batch_max[mode];
  double step_s = 0.018 + 0.00021 * batch + (mode == 0 ? 0.0 : mode == 1 ? 0.004 : 0.002) * batch / 44.0;
  double decode_s = 800 * step_s, wait_s = mode == 0 && concurrency > batch ? decode_s * (concurrency - batch) / batch : 0.0, end_s = 3.2 * decode_s + wait_s;
  double ttft[512], rate[512];
  uint32_t requests = concurrency < 128 ? 128 : concurrency;
  for (uint32_t i = 0; i < requests && code == 0; i++) {
    double queue = wait_s * (i % concurrency) / concurrency;
    ttft[i] = 0.4 + 0.9 * kvl_rng_exponential(&rng) + queue;
    double took = decode_s * (1.0 + 0.06 * kvl_rng_normal(&rng));
    rate[i] = 799.0 / took;
    double submit = (i / concurrency) * decode_s;
    struct kvl_request_record r = {.id = i, .session = i, .gpu = i % 2, .input_tokens = 65536, .cached_tokens = 64000, .output_tokens = 800,
                                   .submit_ns = ns(submit), .prefill_start_ns = ns(submit + 0.1), .prefill_end_ns = ns(submit + 0.3),
                                   .admit_ns = ns(submit + ttft[i] - 0.05), .first_token_ns = ns(submit + ttft[i]),
                                   .last_token_ns = ns(submit + ttft[i] + took)};
    code = kvl_store_add_request(store, &r, err);
  }
  enum { SAMPLES = 900, FRAMES = 4000 };
  for (uint32_t i = 0; i < SAMPLES && code == 0; i++) {
    double x = (double)i / SAMPLES, ramp = x < 0.12 ? x / 0.12 : x > 0.85 ? (1.0 - x) / 0.15 : 1.0;
    double now = batch * ramp * (1.0 + 0.02 * kvl_rng_normal(&rng));
    uint32_t held = (uint32_t)(now < 0.0 ? 0.0 : now > batch ? batch : now);
    uint32_t reserved = mode == 0 ? held * (FRAMES / 44) : held * (FRAMES / 300), rest = FRAMES - (reserved < FRAMES ? reserved : FRAMES);
    struct kvl_step_sample s = {.time_ns = ns(x * end_s) + i, .step_ns = ns(step_s), .gpu = i % 2, .batch = held / 2,
                                .waiting = concurrency > batch && x < 0.6 ? concurrency - batch : 0};
    s.frames_lent = mode == 2 ? (rest < held * 80 ? rest : held * 80) * 97 / 100 : 0;
    s.frames_retiring = mode == 2 && i % 40 < 3 ? rest / 50 : 0;
    s.frames_reserved = reserved < FRAMES ? reserved : FRAMES;
    s.frames_free = FRAMES - s.frames_reserved - s.frames_lent - s.frames_retiring;
    s.resident_share = mode == 0 ? 1.0 : mode == 1 || held == 0 ? 0.0 : fmin(1.0, s.frames_lent / (held * 80.0));
    s.lanes[4] = 1000u * held;
    s.lanes[5] = 60u * held;
    s.stall_ns[KVL_STALL_COMPUTE] = s.step_ns;
    code = kvl_store_add_sample(store, &s, err);
    if (mode == 2 && i % 40 == 0 && code == 0) {
      struct kvl_move_record m = {.time_ns = s.time_ns, .gpu = s.gpu, .revoked = 40, .populated = 3, .given_back = 1, .kept = 2, .bytes = 12345678};
      code = kvl_store_add_move(store, &m, err);
    }
  }
  for (uint32_t p = 0; p < 8 && code == 0; p++) {
    struct kvl_point_counter counter = {.gpu = p % 2, .point = p, .layer = 4 * p, .cache = p % 2, .lanes = {1, 2, 3, 0, 1000 + p, 60}, .fetched = 60};
    code = kvl_store_add_point(store, &counter, err);
  }
  struct kvl_summary summary;
  memset(&summary, 0, sizeof summary);
  summary.output_throughput_tok_per_s = batch / step_s;
  summary.decode_batch_p50 = summary.decode_batch_max = batch;
  summary.request_rate_tok_per_s_p50 = rate[0];
  summary.ttft_s.p50 = 1.1 + wait_s / 2;
  summary.ttft_s.p90 = 2.5 + 0.9 * wait_s;
  summary.selections_total = 1060000;
  summary.selections_by_tier[4] = 1000000;
  summary.selections_by_tier[5] = 60000;
  summary.stall_ms_by_cause[KVL_STALL_COMPUTE] = 1e3 * step_s * 1000;
  summary.steps = 1000;
  summary.requests_completed = requests;
  summary.simulated_s = end_s;
  summary.wall_s = 0.1 + 0.01 * mode;
  summary.seed = 1;
  return code != 0 ? code : kvl_store_run_end(store, run, &summary, KVL_RUN_COMPLETE, err);
}

int main(int argc, char **argv)
{
  struct kvl_err err = {"usage: make_store FILE sweep|incomplete"};
  struct kvl_store *store = NULL;
  struct kvl_store_options options = {.batch_rows = 64};
  int code = argc == 3 ? kvl_store_open_with(&store, argv[1], &options, &err) : -1;
  if (code == 0 && strcmp(argv[2], "sweep") == 0) {
    for (uint32_t concurrency = 16; concurrency <= 256 && code == 0; concurrency *= 2) {
      for (unsigned mode = 0; mode < 3 && code == 0; mode++) {
        code = write_run(store, mode, concurrency, &err);
      }
    }
  } else if (code == 0) {
    struct kvl_run_info info = {.name = "unfinished", .mode = "fixed", .plane = "model", .scenario_json = "{}", .build = "", .command = "", .seed = 2};
    int64_t run = 0;
    code = kvl_store_run_begin(store, &info, &run, &err);
    for (uint64_t i = 0; i < 100 && code == 0; i++) {
      struct kvl_request_record r = {.id = i, .first_token_ns = UINT64_MAX, .last_token_ns = UINT64_MAX};
      code = kvl_store_add_request(store, &r, &err);
    }
    if (code == 0) {
      (void)kill(getpid(), SIGKILL);
    }
  }
  kvl_store_close(store);
  if (code != 0) {
    fprintf(stderr, "%s\n", err.text);
  }
  return code == 0 ? 0 : 1;
}
