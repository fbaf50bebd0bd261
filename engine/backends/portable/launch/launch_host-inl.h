// Defines the launches of launch.h as loops on the host. Only the sources that
// instantiate them include this.
#pragma once

#include <type_traits>

#include "engine/backends/portable/launch/group.h"
#include "engine/backends/portable/launch/launch.h"

namespace gpupool::engine::portable {

template <typename Functor>
void LaunchFor(LaunchStream, int64_t count, const Functor& functor) {
  static_assert(std::is_trivially_copyable_v<Functor> &&
                sizeof(Functor) <= kMaxFunctorBytes);
  for (int64_t i = 0; i < count; ++i) functor(i);
}

template <typename Functor>
void LaunchRows(LaunchStream, int64_t rows, const Functor& functor) {
  static_assert(std::is_trivially_copyable_v<Functor> &&
                sizeof(Functor) <= kMaxFunctorBytes);
  const SingleLane group;
  for (int64_t row = 0; row < rows; ++row) functor(group, row);
}

}  // namespace gpupool::engine::portable

// A family's functor header lists its functors: GPUPOOL_<FAMILY>_FUNCTORS(FOR,
// ROWS) calls FOR with those for LaunchFor and ROWS with those for LaunchRows.
#define GPUPOOL_INSTANTIATE_FOR(...)                          \
  template void LaunchFor<__VA_ARGS__>(LaunchStream, int64_t, \
                                       const __VA_ARGS__&);
#define GPUPOOL_INSTANTIATE_ROWS(...)                          \
  template void LaunchRows<__VA_ARGS__>(LaunchStream, int64_t, \
                                        const __VA_ARGS__&);
