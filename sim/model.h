/* What the simulator knows about a model, a node and a scenario. Filled by the scenario parser (sim/scenario.c) from the JSON files
 * in scenarios/; read by everybody else. Integer nanoseconds and bytes: no double reaches a decision. */
#ifndef KVL_SIM_MODEL_H
#define KVL_SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/residency.h"
#include "kernels/resolve.h"
#include "traces/selection.h"

/* Simulated time ends here, after 146 years: sums of two times cannot wrap, and a run that gets this far has a wrong number in its scenario. */
#define KVL_TIME_MAX (UINT64_C(1) << 62)

enum { KVL_NAME_MAX = 96, KVL_PATH_CAP = 1024, KVL_LAYERS_MAX = 256 };

/* One physical cache. Layers that always share a selection and are moved together are one cache of `layers` times the row. */
struct kvl_model_cache {
  char name[16];
  uint32_t written_layer;    /* first layer that writes it */
  uint32_t tokens_per_row;
  uint32_t row_bytes;        /* of one row, all of `layers` included */
  uint32_t index_key_bytes;  /* per row; stays in HBM */
  uint32_t layers;           /* layers that have a part each of its rows: 1, or as many as each of its selections has readers */
};

struct kvl_model {
  char name[KVL_NAME_MAX];
  char source[256];
  uint32_t layers;
  uint32_t caches;
  struct kvl_model_cache cache[KVL_CACHES_MAX];
  struct kvl_selection_shape selection; /* points in order of layer; selection.caches == caches */
  uint32_t readers[KVL_POINTS_MAX];     /* layers served by the addresses of a point */
  uint64_t window_bytes;                /* sliding-window state of a request: fixed, in HBM */
  uint32_t whole_bytes_per_token_q8;    /* caches that are read whole (C128 of V4), bytes a token times 256: fixed, in HBM, never lent */
  uint64_t weights_bytes;               /* roofline: parameters read a step, per GPU; 0 when not known */
  uint64_t active_flops_per_token;      /* roofline; 0 when not known */
  uint32_t pool_layer, pool_blocks, pool_rows_per_block; /* candidate pool (prefetch); 0: none */
};

/* A piecewise-linear curve: y over x, x ascending. Outside: flat at the low end, last slope at the high end (and a flag says so). */
enum { KVL_CURVE_MAX = 128 };
struct kvl_curve {
  uint32_t n;
  uint64_t x[KVL_CURVE_MAX];
  uint64_t y[KVL_CURVE_MAX];
};

/* Measured times of gathers: a full grid over row size, range of the pool and rows. Between its points: linear in rows and row size, linear in the range's
 * logarithm. Fewer rows or smaller rows than the least, or a smaller range: as the least. More rows: the last slope goes on. Larger rows: as so many more of the largest. A
 * larger range: as the largest (a flag says so, as for curves). */
enum { KVL_GATHER_AXIS_MAX = 12, KVL_GATHER_POINTS_MAX = 600 };
struct kvl_gather_table {
  uint32_t sizes, ranges, counts;     /* 0: there is no table */
  uint64_t row_bytes[KVL_GATHER_AXIS_MAX], range_bytes[KVL_GATHER_AXIS_MAX], rows[KVL_GATHER_AXIS_MAX]; /* ascending */
  uint64_t ns[KVL_GATHER_POINTS_MAX]; /* [size][range][count] */
};

/* Host link of one GPU, one direction: t = floor + max(bytes / bandwidth, rows / rate(range of the pool)); gathers by the table instead where there is one. */
struct kvl_link {
  uint64_t gather_bytes_per_s;        /* small-row gathers */
  uint64_t copy_bytes_per_s;          /* bulk copies (DMA) */
  uint64_t gather_floor_ns;           /* constant of one gather inside a step */
  uint64_t copy_floor_ns;
  struct kvl_curve rows_per_s;        /* x: bytes of the pool the rows range over; y: rows per second */
  struct kvl_gather_table gathers;
  struct kvl_curve fetch_permille;    /* a look-up's own fetches against a gather of the same rows, over rows; no points: 1,000 */
  /* Pages copied by a kernel, as a CUDA plane does when their pieces are small. */
  struct kvl_curve pages_bytes_per_s; /* x: bytes of a piece; held past its ends; no points: pages go as bulk copies do */
  uint64_t pages_floor_ns;
  uint64_t to_host_bytes_per_s;       /* bulk copies GPU to host; 0: as the other way */
  uint64_t pages_both_permille;       /* such a page copy's time while a bulk copy goes to the host, against alone; at least 1,000 */
  uint64_t to_host_both_permille;     /* and that copy's */
};

struct kvl_hardware {
  char name[KVL_NAME_MAX];
  char part[KVL_NAME_MAX];            /* that was measured, under another name; "": the name says it */
  char source[256];
  uint64_t hbm_bytes;
  uint64_t hbm_bytes_per_s;
  uint64_t flops_per_s;               /* dense, at the weights' precision; roofline */
  struct kvl_curve resolve_ns_by_lanes; /* one look-up without misses, over selected rows: the least that the cost profile's law may say */
  struct kvl_link link;
};

enum kvl_compute_kind { KVL_COMPUTE_TABLE, KVL_COMPUTE_LAW, KVL_COMPUTE_ROOFLINE };

/* Costs of a model on a node: a profile. Times of one decode GPU. */
struct kvl_costs {
  char name[KVL_NAME_MAX];
  char source[256];
  char model[KVL_NAME_MAX];           /* what it was made for; "": anything */
  char hardware[KVL_NAME_MAX];
  enum kvl_compute_kind compute;
  struct kvl_curve step_ns_by_tokens; /* table: step time over verified tokens */
  struct kvl_curve draft_ns_by_requests; /* speculation: time of drafting over requests of the batch; no points: it takes no time */
  uint64_t law_fixed_ns, law_token_ns; /* law: fixed + tokens x token */
  uint64_t compute_hbm_bytes;         /* what the model's own layers read from HBM in a step: for the CUDA plane's stand-in layers only */
  /* What the mode (fixed, adaptive) adds to every step: scale x (batch / 44)^exponent. */
  uint64_t bookkeeping_ns_at_44;
  uint64_t resident_bookkeeping_ns_at_44; /* the same in resident mode */
  uint32_t bookkeeping_exponent_permille;
  uint64_t resolve_fixed_ns;          /* one look-up kernel inside the step graph */
  uint64_t resolve_lane_ps;           /* and per selected row, picoseconds */
  uint64_t admission_ns;              /* serialized work of an admission besides its copy, fixed and adaptive */
  uint64_t resident_admission_ns;     /* the same in resident mode */
  uint64_t admission_token_ps;        /* and per token of its history: entries of its page map, picoseconds */
  uint64_t revoke_page_ns;            /* unmapping one page */
  /* The host's work between two steps besides admissions; it delays the next step. */
  uint64_t reserve_ns, reserve_token_ps; /* a request gets its batch slot: laying out its state; and per token of its history, picoseconds */
  uint64_t release_ns;                /* a request's slot is given up */
  uint64_t keep_page_ns, give_page_ns; /* a completed page is kept; a page is lent to a running request */
  uint64_t history_bytes_per_s;       /* histories of new requests leave over the decode GPU's own link for the host, from its reservation on; 0: they come another way */
  uint64_t prefill_fixed_ns;          /* one prefill */
  uint64_t prefill_token_ps;          /* per uncached token, picoseconds */
  uint64_t prefill_cached_token_ps;   /* per cached token: bringing the prefix to the prefill GPU */
  uint64_t transfer_bytes_per_s;      /* prefill GPU to decode node, per decode GPU */
  uint64_t transfer_fixed_ns;         /* hand-over: from a free slot to the start of the transfer */
};

/* When a request may enter the prefill queue: as it arrives, or once a decode GPU has reserved its memory (engines that hand the KV over
 * directly do the latter: the prefill GPU needs to know where to write). */
enum kvl_prefill_start { KVL_PREFILL_ON_ARRIVAL, KVL_PREFILL_ON_RESERVATION };
/* Who gets a request: whichever GPU has room first, or one that a stateless router chose when the request came. */
enum kvl_routing { KVL_ROUTE_LEAST_LOADED, KVL_ROUTE_ROUND_ROBIN, KVL_ROUTE_RANDOM };
enum kvl_admission_copy { KVL_COPY_SERIAL, KVL_COPY_SIDE_STREAM, KVL_COPY_BOUNDED };
enum kvl_workload_kind { KVL_WORK_CLOSED, KVL_WORK_POISSON, KVL_WORK_GAMMA, KVL_WORK_FILE };
enum kvl_speculation { KVL_SPECULATION_NONE, KVL_SPECULATION_DSPARK };
/* Where the scheduler of drafts ends: at the first draft that does not pay, or at the best of all prefixes. */
enum kvl_speculation_stop { KVL_STOP_FIRST, KVL_STOP_BEST };
enum { KVL_DRAFTS_MAX = 7 }; /* one query more than drafts: KVL_STEP_QUERIES_MAX of backend/plane.h */
enum kvl_selection_kind { KVL_SELECT_NONE, KVL_SELECT_PRESET, KVL_SELECT_TRACE };

enum kvl_layer_sharing { KVL_SHARING_ON, KVL_SHARING_OFF };
enum kvl_prefetch_kind { KVL_PREFETCH_NONE, KVL_PREFETCH_POOL, KVL_PREFETCH_PLAN };

struct kvl_scenario {
  char name[KVL_NAME_MAX];
  char note[256];
  char file[KVL_PATH_CAP];            /* as given; relative file names in a scenario are relative to it */
  struct kvl_model model;
  struct kvl_hardware hardware;
  struct kvl_costs costs;

  struct {
    uint32_t prefill_gpus, decode_gpus;
    uint64_t kv_pool_bytes;           /* HBM for KV of one decode GPU */
    uint64_t host_pool_bytes;         /* pinned host memory of the decode node, shared by its GPUs */
    uint32_t sessions_per_gpu_max;    /* adaptive and fixed: most sessions a decode GPU takes, whatever fits; 0: no limit */
    enum kvl_prefill_start prefill_start;
    enum kvl_routing routing;
  } node;

  enum kvl_mode mode;
  struct {
    uint32_t hot_rows;                /* hot cache of one cache of one request */
    uint32_t bank_rows;
    uint32_t page_tokens;             /* a power of two */
    uint32_t tail_tokens;
    uint64_t give_back_bytes_max;     /* a gap */
    uint64_t horizon_ns;
    enum kvl_evict eviction;
    enum kvl_revoke_order revoke_order;
    enum kvl_give_order give_order;
    enum kvl_admission_copy admission_copy;
    uint64_t admission_chunk_bytes;   /* bounded: most population bytes a gap */
    enum kvl_layer_sharing layer_sharing; /* off: every layer resolves for itself, with the rows of the selection it reads */
    enum kvl_prefetch_kind prefetch;
    uint32_t pool_rows_max;           /* rows of the pools announced for a request in a step, all its queries together; 0: no limit */
  } policy;

  struct {
    enum kvl_speculation method;
    char name[KVL_NAME_MAX], source[256];
    uint32_t drafts;                  /* that a request drafts a step */
    char shape[16];                   /* of acceptance by position: maths, code, chat */
    struct kvl_curve accepted_lengths; /* instead of a shape: mean tokens a step, thousandths, by drafts 1, 2, ...; no points: the shape */
    uint32_t accepted_mean_milli;     /* mean tokens a step when all drafts are verified, thousandths; 0: as the shape or the lengths say */
    uint32_t confidence_spread_permille;
    enum kvl_speculation_stop stop;
    struct kvl_curve cost_ns_by_tokens, draft_cost_ns_by_requests; /* the scheduler's table; no points: the profile's own times */
    uint64_t weights_bytes, graph_bytes, scratch_bytes; /* HBM of a decode GPU, taken from the KV pool */
    uint64_t state_bytes, state_bytes_per_token_q8;     /* HBM of a session */
  } speculation;

  struct {
    enum kvl_workload_kind kind;
    uint32_t concurrency;             /* closed; file of sessions: sessions active at once */
    uint64_t open_interval_ns;        /* closed: the first `concurrency` requests are submitted this far apart */
    uint64_t requests;                /* 0: all of the file */
    uint32_t input_tokens, cached_tokens, output_tokens; /* fixed-size workloads */
    double rate_per_s, gamma_cv;      /* open loop */
    char path[KVL_PATH_CAP];          /* file workloads, resolved against the scenario's folder */
    char format[16];                  /* auto, mooncake, agent */
    double time_scale;                /* file workloads: arrival times and think times are multiplied by it; 1 as recorded */
    uint64_t prefix_store_bytes;      /* host-side prefix store; 0: none (cached_tokens rules fixed-size workloads) */
  } workload;

  struct {
    enum kvl_selection_kind kind;
    char preset[16];
    uint32_t query_overlap_permille;  /* preset: rows that neighbouring queries of a step share, of 1,000 */
    uint32_t library_sessions;        /* preset, requests of one size: generated once and shared; 0: each request generates its own */
    char path[KVL_PATH_CAP];
  } selection;

  struct {
    uint64_t simulated_ns_max;        /* 0: none */
    uint64_t request_timeout_ns;      /* clients go away after this; 0: never */
    uint32_t batch_max;               /* decode batch of one GPU; 0: none */
    uint64_t ttft_target_ns, tpot_target_ns; /* goodput; 0: none */
  } limits;
  uint64_t seed;
};

/* Sizes of the machinery that fixed and adaptive mode keep in HBM for a request. */
enum {
  KVL_MAP_ENTRY_BYTES = 4,   /* page map: one a page; position-to-slot maps: one a row of every cache; bank: one a slot */
  KVL_HOT_STATE_BYTES = 8,   /* stamp and row of a hot slot */
  KVL_VERIFY_TOKENS_MAX = 8  /* most tokens of one pass: commit scratch holds their rows and an open group */
};

/* Derived sizes of one request, used by the engine and by `scenario check`. The parts are exact bytes; `fixed` and `resident` are what is
 * reserved: each part rounded up to whole frames (kvl_page_bytes). The same whatever the scenario's mode is. */
struct kvl_session_bytes {
  uint64_t rows;          /* history that may leave HBM, through `tokens` */
  uint64_t index;         /* index keys */
  uint64_t whole;         /* caches read whole */
  uint64_t window;
  uint64_t maps;          /* page map, position-to-slot maps, stamps */
  uint64_t hot, bank, tail, scratch; /* scratch: commit and overflow (k rows a cache and query) */
  uint64_t draft;         /* speculation: the draft model's state, in every mode */
  uint64_t fixed;         /* what fixed and adaptive mode reserve: index + whole + window + maps + hot + bank + tail + scratch + draft */
  uint64_t resident;      /* what resident mode reserves: rows + index + whole + window + draft */
  uint64_t host;          /* pinned host bytes of fixed and adaptive mode */
};
uint32_t kvl_queries_max(const struct kvl_scenario *scenario); /* of one request in one step: 1, with speculation one more than drafts */
/* HBM of a decode GPU that is left for sessions: the KV pool without what speculation takes of it once a GPU (weights, graphs, scratch). */
uint64_t kvl_pool_bytes(const struct kvl_scenario *scenario);
uint64_t kvl_speculation_bytes(const struct kvl_scenario *scenario); /* what it takes; 0 without speculation */
void kvl_session_bytes(const struct kvl_scenario *scenario, uint64_t tokens, struct kvl_session_bytes *bytes);
/* Asks the selections for candidate pools (selection.pool) where the model announces them: at the first selection of its pool layer, for the later ones
 * from the same cache. False: it has none, or nobody chooses from it. */
bool kvl_model_want_pool(struct kvl_model *model);
extern const char *const kvl_mode_names[]; /* by mode, then NULL */
const char *kvl_mode_name(enum kvl_mode mode); /* resident, fixed, adaptive */
/* What a run stands under in stores, tables and pictures: its mode, with speculation "adaptive+NAME": two tables of step times are two rows, and neither is a row
 * of the runs without. Returns `text`. */
enum { KVL_LABEL_MAX = KVL_NAME_MAX + 16 };
const char *kvl_mode_label(const struct kvl_scenario *scenario, char text[KVL_LABEL_MAX]);
/* Was the cost profile made for this model, for this part? If not, every time is an extrapolation. Variants of a model share its profile,
 * and so do calibrated descriptors of a part that are named after it: h200.measured. */
bool kvl_costs_suit_model(const struct kvl_scenario *scenario);
bool kvl_costs_suit_hardware(const struct kvl_scenario *scenario);
uint64_t kvl_page_bytes(const struct kvl_scenario *scenario); /* bytes of one frame: page_tokens of all caches' rows */

uint64_t kvl_curve_at(const struct kvl_curve *curve, uint64_t x, bool *outside); /* `outside` may be NULL; set, never cleared */

#endif
