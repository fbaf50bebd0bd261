// Splits a loop over a fixed number of threads. The split depends only on the
// counts, so results are the same from run to run.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpupool::engine {

// Calls body(part, begin, end) in parallel for at most `threads` parts of [0,
// count). `part` counts from 0. Each part but the first begins at a multiple of
// `grain`. `body` must not throw, and parts must not write the same memory.
template <typename Body>
void ParallelParts(int threads, int64_t count, int64_t grain,
                   const Body& body) {
  const int64_t grains = (count + grain - 1) / grain;
  const int parts = static_cast<int>(std::min<int64_t>(threads, grains));
  if (parts <= 1) {
    if (count > 0) body(0, int64_t{0}, count);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) {
    const int64_t begin = grains * part / parts * grain;
    const int64_t end = std::min(count, grains * (part + 1) / parts * grain);
    if (begin < end) body(part, begin, end);
  }
}

// Does the same with body(begin, end).
template <typename Body>
void ParallelFor(int threads, int64_t count, int64_t grain, const Body& body) {
  ParallelParts(threads, count, grain,
                [&](int, int64_t begin, int64_t end) { body(begin, end); });
}

}  // namespace gpupool::engine
