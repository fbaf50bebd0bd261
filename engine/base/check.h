// A broken invariant of our own: say what and where, then abort. Never for
// bad input, which is a Status.
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
