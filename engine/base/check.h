// GPUPOOL_CHECK(condition) prints the condition and its place and aborts when
// it is false. It is for broken invariants of our own, never for bad input,
// which is a Status.
#pragma once

#include <cstdio>
#include <cstdlib>

#define GPUPOOL_CHECK(condition)                                            \
  do {                                                                      \
    if (!(condition)) {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, \
                   #condition);                                             \
      std::abort();                                                         \
    }                                                                       \
  } while (false)
