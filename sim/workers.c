#include "sim/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct helper {
  struct kvl_workers *pool;
  pthread_t thread;
  uint32_t number;
};

struct kvl_workers {
  uint32_t threads; /* the caller is number 0 */
  struct helper *helper;
  uint32_t helpers;
  pthread_mutex_t lock;
  pthread_cond_t go, idle;
  uint64_t round;
  uint32_t busy;
  bool stop;
  kvl_work_fn *fn;
  void *context;
  uint32_t count;
  atomic_uint next;
};

static void take_items(struct kvl_workers *w, uint32_t thread)
{
  for (;;) {
    uint32_t item = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
    if (item >= w->count) {
      return;
    }
    w->fn(w->context, thread, item);
  }
}

static void *helper_main(void *argument)
{
  struct helper *h = argument;
  struct kvl_workers *w = h->pool;
  uint64_t seen = 0;
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (w->round == seen && !w->stop) {
      pthread_cond_wait(&w->go, &w->lock);
    }
    if (w->stop) {
      break;
    }
    seen = w->round;
    pthread_mutex_unlock(&w->lock);
    take_items(w, h->number);
    pthread_mutex_lock(&w->lock);
    if (--w->busy == 0) {
      pthread_cond_signal(&w->idle);
    }
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

struct kvl_workers *kvl_workers_create(uint32_t threads)
{
  struct kvl_workers *w = calloc(1, sizeof *w);
  if (w == NULL) {
    return NULL;
  }
  w->threads = threads == 0 ? 1 : threads;
  w->helper = calloc(w->threads, sizeof *w->helper);
  if (w->helper == NULL) {
    free(w);
    return NULL;
  }
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->go, NULL);
  pthread_cond_init(&w->idle, NULL);
  for (uint32_t i = 1; i < w->threads; i++) {
    struct helper *h = &w->helper[w->helpers];
    *h = (struct helper){.pool = w, .number = i};
    if (pthread_create(&h->thread, NULL, helper_main, h) != 0) {
      kvl_workers_destroy(w);
      return NULL;
    }
    w->helpers++;
  }
  return w;
}

void kvl_workers_destroy(struct kvl_workers *w)
{
  if (w == NULL) {
    return;
  }
  pthread_mutex_lock(&w->lock);
  w->stop = true;
  pthread_cond_broadcast(&w->go);
  pthread_mutex_unlock(&w->lock);
  for (uint32_t i = 0; i < w->helpers; i++) {
    pthread_join(w->helper[i].thread, NULL);
  }
  pthread_mutex_destroy(&w->lock);
  pthread_cond_destroy(&w->go);
  pthread_cond_destroy(&w->idle);
  free(w->helper);
  free(w);
}

uint32_t kvl_workers_count(const struct kvl_workers *w)
{
  return w->threads;
}

void kvl_workers_run(struct kvl_workers *w, kvl_work_fn *fn, void *context, uint32_t count)
{
  w->fn = fn;
  w->context = context;
  w->count = count;
  atomic_store(&w->next, 0);
  if (w->helpers == 0 || count < 2) {
    take_items(w, 0);
    return;
  }
  pthread_mutex_lock(&w->lock);
  w->busy = w->helpers;
  w->round++;
  pthread_cond_broadcast(&w->go);
  pthread_mutex_unlock(&w->lock);
  take_items(w, 0);
  pthread_mutex_lock(&w->lock);
  while (w->busy != 0) {
    pthread_cond_wait(&w->idle, &w->lock);
  }
  pthread_mutex_unlock(&w->lock);
}
