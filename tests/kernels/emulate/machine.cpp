// Runs a grid of fibers, a cluster at a time (cuda_runtime.h).
#undef _FORTIFY_SOURCE // its longjmp takes another stack for a mistake
#include "tests/kernels/emulate/cuda_runtime.h"

#include <csetjmp>
#include <csignal>
#include <ctime>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

dim3 threadIdx, blockIdx, blockDim, gridDim;
int emulated_device = 3;
int emulated_capturing;
uint64_t emulated_clusters[9];

namespace emulated {
namespace {

constexpr uint32_t WINDOW = 1u << 18; // shared memory of a block
constexpr uint32_t BLOCKS_MAX = 8;
constexpr size_t STACK = 64 << 10;

struct copy {
  unsigned char *to;
  const unsigned char *from;
  size_t bytes;
  uint32_t group;
};

struct fiber {
  jmp_buf context;
  ucontext_t first;
  bool made, ready, done, begun;
  uint32_t thread, block, warp, lane;
  // warp operation that it waits in
  bool in_warp;
  warp_kind kind;
  uint32_t mask, from;
  uint64_t value, result;
  place at; // where it waits
  bool arrived; // at the cluster's barrier, and has not waited since
  uint64_t phase;
  uint32_t groups; // copies committed
  std::vector<copy> copies;
};

struct block_state {
  uint32_t live, waiting;
  bool begun;
  place at;
};

std::vector<fiber *> pool;
std::vector<uint32_t> warp_ready; // a bit a lane
std::vector<uint32_t> ready_warps, place_in_ready, priority;
block_state blocks[BLOCKS_MAX];
unsigned char *windows;
jmp_buf scheduler;
fiber *self;
uint32_t total, exited, arrived, exited_not_arrived, block_threads, cluster_blocks;
uint64_t phase;
uint32_t shared_used;
uint32_t dynamic_at;
std::vector<uint32_t> shared_ids; // offset + 1
bool strict;
void (*body)(void *);
void *body_arg;
dim3 block_index0;
uint64_t rng = 1;

uint32_t random_below(uint32_t n)
{
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return (uint32_t)(((rng >> 32) * n) >> 32);
}

[[noreturn]] void fail(const char *what, place at)
{
  printf("emulated: %s at %s:%d (block %u of the cluster, request %u, thread %u)\n", what, at.file, at.line, self ? self->block : 0, blockIdx.y,
         self ? self->thread : 0);
  fflush(stdout);
  exit(1);
}

void bad_address(int)
{
  fail("a bad address, after what is", self != nullptr ? self->at : place{"no kernel", 0});
}

void set_ready(fiber *f)
{
  f->ready = true;
  uint32_t &bits = warp_ready[f->warp];
  if (bits == 0) {
    place_in_ready[f->warp] = (uint32_t)ready_warps.size();
    ready_warps.push_back(f->warp);
  }
  bits |= 1u << f->lane;
}

void set_waiting(fiber *f)
{
  f->ready = false;
  uint32_t &bits = warp_ready[f->warp];
  bits &= ~(1u << f->lane);
  if (bits == 0) {
    uint32_t at = place_in_ready[f->warp];
    ready_warps[at] = ready_warps.back();
    place_in_ready[ready_warps[at]] = at;
    ready_warps.pop_back();
  }
}

__attribute__((noinline)) void switch_away()
{
  if (_setjmp(self->context) == 0) {
    _longjmp(scheduler, 1);
  }
}

void cluster_complete()
{
  if (arrived + exited_not_arrived < total || arrived == 0) {
    return;
  }
  phase++;
  arrived = 0;
  exited_not_arrived = exited;
  for (uint32_t i = 0; i < total; i++) {
    fiber *f = pool[i];
    if (!f->done && !f->ready && !f->in_warp && f->arrived && f->phase == UINT64_MAX) {
      set_ready(f);
    }
  }
}

void block_complete(uint32_t b)
{
  if (blocks[b].waiting == 0 || blocks[b].waiting < blocks[b].live) {
    return;
  }
  blocks[b].waiting = 0;
  for (uint32_t i = b * block_threads; i < (b + 1) * block_threads; i++) {
    if (!pool[i]->done) {
      set_ready(pool[i]);
    }
  }
}

void entry()
{
  for (;;) {
    body(body_arg);
    fiber *f = self;
    f->done = true;
    set_waiting(f);
    exited++;
    blocks[f->block].live--;
    exited_not_arrived += !(f->arrived && f->phase == phase);
    block_complete(f->block);
    cluster_complete();
    switch_away();
  }
}

void resume(fiber *f)
{
  self = f;
  f->begun = true;
  blocks[f->block].begun = true;
  threadIdx = dim3(f->thread, 0, 0);
  blockIdx = dim3(block_index0.x + f->block, block_index0.y, 0);
  if (_setjmp(scheduler) == 0) {
    if (f->made) {
      _longjmp(f->context, 1);
    }
    f->made = true;
    setcontext(&f->first);
  }
}

unsigned char *resolve_address(uint32_t address, place at)
{
  uint32_t b = address / WINDOW;
  if (address < WINDOW || b - 1 >= cluster_blocks) {
    fail("no address of shared memory", at);
  }
  b--;
  if (!blocks[b].begun) {
    fail("shared memory of a block that has not begun", at);
  }
  if (blocks[b].live == 0) {
    fail("shared memory of a block that has ended", at);
  }
  return windows + (size_t)b * WINDOW + address % WINDOW;
}

void run_cluster(uint32_t cluster, size_t dynamic)
{
  emulated_clusters[cluster]++;
  total = cluster * block_threads;
  exited = arrived = exited_not_arrived = 0;
  phase = 0;
  cluster_blocks = cluster;
  shared_ids.clear();
  strict = random_below(2) == 0;
  const uint32_t warps = total / 32;
  warp_ready.assign(warps, 0);
  place_in_ready.assign(warps, 0);
  priority.assign(warps, 0);
  ready_warps.clear();
  while (pool.size() < total) {
    fiber *f = new fiber();
    void *stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) {
      abort();
    }
    getcontext(&f->first);
    f->first.uc_stack.ss_sp = stack;
    f->first.uc_stack.ss_size = STACK - (pool.size() % 16) * 256; // not all at the same place in the processor's caches
    f->first.uc_link = nullptr;
    makecontext(&f->first, entry, 0);
    pool.push_back(f);
  }
  for (uint32_t i = 0; i < total; i++) {
    fiber *f = pool[i];
    f->done = f->begun = f->in_warp = f->arrived = false;
    f->groups = 0;
    f->phase = 0;
    f->copies.clear();
    f->thread = i % block_threads;
    f->block = i / block_threads;
    f->warp = i / 32;
    f->lane = i % 32;
    set_ready(f);
  }
  uint32_t block_priority[BLOCKS_MAX];
  for (uint32_t b = 0; b < cluster; b++) {
    blocks[b] = block_state{block_threads, 0, false, {nullptr, 0}};
    block_priority[b] = random_below(2) == 0 ? 0 : random_below(1u << 30);
  }
  for (uint32_t w = 0; w < warps; w++) {
    priority[w] = block_priority[w * 32 / block_threads] + random_below(1u << 30);
  }
  shared_used = 0;
  dynamic_at = 0;
  if (dynamic > 0) {
    dynamic_at = (uint32_t)((unsigned char *)shared_at(-1, dynamic, 16) - windows);
  }
  while (!ready_warps.empty()) {
    uint32_t w = ready_warps[random_below((uint32_t)ready_warps.size())];
    for (uint32_t other : ready_warps) {
      w = strict && priority[other] < priority[w] ? other : w;
    }
    if (strict && random_below(256) == 0) {
      priority[w] = random_below(1u << 31);
    }
    uint32_t bits = warp_ready[w];
    uint32_t turn = random_below(32);
    uint32_t flip = random_below(2) * 31;
    if (random_below(8) == 0) {
      bits &= random_below(UINT32_MAX) | (bits & (0u - bits)); // some of them, one at least
    }
    for (uint32_t l = 0; l < 32; l++) {
      uint32_t lane = ((l + turn) ^ flip) & 31;
      if ((bits >> lane) & 1u) {
        resume(pool[w * 32 + lane]);
      }
    }
  }
  self = nullptr;
  if (exited < total) {
    printf("emulated: %u of %u threads wait for ever:\n", total - exited, total);
    place last = {nullptr, 0};
    int lines = 0;
    for (uint32_t i = 0; i < total && lines < 20; i++) {
      const fiber *f = pool[i];
      if (!f->done && !(f->at == last)) {
        last = f->at;
        lines++;
        printf("  block %u thread %u at %s:%d\n", f->block, f->thread, last.file, last.line);
      }
    }
    fflush(stdout);
    exit(1);
  }
}

void complete_copies(fiber *f, uint32_t before) // groups below `before`
{
  size_t kept = 0;
  for (size_t i = 0; i < f->copies.size(); i++) {
    const copy c = f->copies[i];
    if (c.group < before) {
      memcpy(c.to, c.from, c.bytes);
    } else {
      f->copies[kept++] = c;
    }
  }
  f->copies.resize(kept);
}

} // namespace

void run(dim3 grid, dim3 block, uint32_t cluster, size_t dynamic, void (*new_body)(void *), void *arg)
{
  if (windows == nullptr) {
    windows = static_cast<unsigned char *>(aligned_alloc(1024, (size_t)WINDOW * BLOCKS_MAX));
    static char handler_stack[1 << 16];
    stack_t other = {};
    other.ss_sp = handler_stack;
    other.ss_size = sizeof handler_stack;
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_handler = bad_address;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
  }
  if (block.x % 32 != 0 || grid.x % cluster != 0 || cluster > BLOCKS_MAX) {
    abort();
  }
  body = new_body;
  body_arg = arg;
  gridDim = grid;
  blockDim = block;
  block_threads = block.x;
  for (uint32_t y = 0; y < grid.y; y++) {
    for (uint32_t x = 0; x < grid.x; x += cluster) {
      block_index0 = dim3(x, y, 0);
      run_cluster(cluster, dynamic);
    }
  }
}

void *shared_at(int id, size_t bytes, size_t align)
{
  size_t n = (size_t)(id + 1);
  if (shared_ids.size() <= n) {
    shared_ids.resize(n + 1, 0);
  }
  if (shared_ids[n] == 0) {
    shared_used = (shared_used + (uint32_t)align - 1) / (uint32_t)align * (uint32_t)align;
    shared_ids[n] = shared_used + 1;
    for (uint32_t b = 0; b < cluster_blocks; b++) { // nothing is zero at first
      unsigned char *p = windows + (size_t)b * WINDOW + shared_used;
      for (size_t i = 0; i < bytes; i += 4) {
        uint32_t x = random_below(UINT32_MAX);
        x &= 0u - (x >> 31); // words that are zero, and words that are not
        memcpy(p + i, &x, min(bytes - i, (size_t)4));
      }
    }
    shared_used += (uint32_t)bytes;
    if (shared_used > WINDOW) {
      abort();
    }
  }
  return windows + (size_t)(self != nullptr ? self->block : 0) * WINDOW + shared_ids[n] - 1;
}

void *dynamic_shared()
{
  return windows + (size_t)self->block * WINDOW + dynamic_at;
}

uint32_t shared_address(const void *p)
{
  size_t at = (size_t)(static_cast<const unsigned char *>(p) - windows);
  if (at / WINDOW != self->block) {
    fail("not this block's shared memory", {"?", 0});
  }
  return (uint32_t)(at + WINDOW);
}

void give_way()
{
  switch_away(); // still ready
}

void now_and_then()
{
  if (random_below(64) == 0) {
    give_way();
  }
}

void sync_block(place here)
{
  block_state &b = blocks[self->block];
  if (b.waiting > 0 && !(b.at == here)) {
    self->at = here;
    fail("a block's barrier is reached from two places", here);
  }
  b.at = here;
  self->at = here;
  b.waiting++;
  set_waiting(self);
  block_complete(self->block);
  switch_away();
}

uint64_t warp(warp_kind kind, uint32_t mask, uint64_t value, uint32_t from, place here)
{
  fiber *f = self;
  f->kind = kind;
  f->mask = mask;
  f->value = value;
  f->from = from;
  f->at = here;
  f->in_warp = true;
  if (!((mask >> f->lane) & 1u)) {
    fail("a lane that is not in its mask", here);
  }
  fiber **lane = &pool[f->warp * 32];
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const fiber *o = lane[__builtin_ctz(m)];
    if (!o->in_warp || o->kind != kind || o->mask != mask || !(o->at == here)) {
      set_waiting(f);
      switch_away();
      return f->result;
    }
  }
  uint64_t all = kind == LEAST ? UINT32_MAX : 0;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    uint32_t l = (uint32_t)__builtin_ctz(m);
    uint64_t v = lane[l]->value;
    all = kind == BALLOT ? all | (uint64_t)(v != 0) << l : kind == SUM ? all + v : kind == LEAST ? min(all, v) : 0;
  }
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    fiber *o = lane[__builtin_ctz(m)];
    o->result = all;
    if (kind == MATCH) {
      for (uint32_t n = mask; n != 0; n &= n - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(n);
        o->result |= (uint64_t)(lane[l]->value == o->value) << l;
      }
    } else if (kind == SHUFFLE) {
      if (!((mask >> o->from) & 1u)) {
        fail("a value of a lane that is not in the mask", here);
      }
      o->result = lane[o->from]->value;
    }
  }
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    fiber *o = lane[__builtin_ctz(m)];
    o->in_warp = false;
    if (!o->ready) {
      set_ready(o);
    }
  }
  return f->result;
}

uint64_t operand::get() const
{
  uint64_t value = 0;
  memcpy(&value, at, bytes);
  return value;
}

void operand::set(uint64_t value) const
{
  memcpy(const_cast<void *>(at), &value, bytes);
}

void instruction(const char *text, const operand *o, int count, place here)
{
  (void)count;
  self->at = here;
  auto is = [&](const char *t) { return strcmp(text, t) == 0; };
  auto word = [&](const operand &address) {
    now_and_then();
    return (uint32_t *)(void *)resolve_address((uint32_t)address.get(), here);
  };
  if (is("mapa.shared::cluster.u32 %0, %1, %2;")) {
    o[0].set(o[1].get() % WINDOW + (o[2].get() + 1) * WINDOW);
  } else if (is("red.relaxed.cluster.shared::cluster.xor.b32 [%0], %1;")) {
    *word(o[0]) ^= (uint32_t)o[1].get();
  } else if (is("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;")) {
    *word(o[0]) += (uint32_t)o[1].get();
  } else if (is("st.shared::cluster.u32 [%0], %1;")) {
    *word(o[0]) = (uint32_t)o[1].get();
  } else if (is("st.shared::cluster.v2.u32 [%0], {%1, %2};")) {
    uint32_t *to = word(o[0]);
    to[0] = (uint32_t)o[1].get();
    to[1] = (uint32_t)o[2].get();
  } else if (is("cp.async.ca.shared.global [%0], [%1], %2;")) {
    copy c = {resolve_address((uint32_t)o[0].get(), here), (const unsigned char *)(uintptr_t)o[1].get(), (size_t)o[2].get(), self->groups};
    if (((uintptr_t)c.to | (uintptr_t)c.from) % c.bytes != 0) {
      fail("an address that is not aligned", here);
    }
    if (random_below(4) == 0) {
      memcpy(c.to, c.from, c.bytes); // as early as may be, or as late
    } else {
      self->copies.push_back(c);
    }
  } else if (is("cp.async.commit_group;")) {
    self->groups++;
  } else if (is("cp.async.wait_group %0;")) {
    uint32_t kept = (uint32_t)o[0].get();
    complete_copies(self, self->groups > kept ? self->groups - kept : 0);
  } else if (is("barrier.cluster.arrive.release.aligned;")) {
    if (self->arrived) {
      fail("arrives twice at the cluster's barrier", here);
    }
    self->arrived = true;
    self->phase = phase;
    arrived++;
    cluster_complete();
  } else if (is("barrier.cluster.wait.acquire.aligned;")) {
    if (!self->arrived) {
      fail("waits at the cluster's barrier without having arrived", here);
    }
    if (self->phase == phase) {
      self->phase = UINT64_MAX; // waits
      set_waiting(self);
      switch_away();
    }
    self->arrived = false;
  } else if (is("mov.u64 %0, %%globaltimer;")) {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    o[0].set((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
  } else if (!is("griddepcontrol.wait;") && !is("griddepcontrol.launch_dependents;")) {
    fail(text, here);
  }
}

} // namespace emulated

void emulated_seed(uint64_t seed)
{
  emulated::rng = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
}
