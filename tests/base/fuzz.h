/* A fuzz target is one function. Linked with libFuzzer (-Dfuzzing=libfuzzer) it explores; linked with fuzz_replay.c it replays its corpus. */
#ifndef KVL_TESTS_BASE_FUZZ_H
#define KVL_TESTS_BASE_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* aborts when something is wrong */

#endif
