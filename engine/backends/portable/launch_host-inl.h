// The launches of launch.h as loops on the host. Included by the sources that
// instantiate them, and by nobody else.
#pragma once

#include <type_traits>

#include "engine/backends/portable/group.h"
#include "engine/backends/portable/launch.h"

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

// GPUPOOL_INSTANTIATE_FOR(UnaryFunctor) in a family's source.
#define GPUPOOL_INSTANTIATE_FOR(Functor) \
  template void LaunchFor<Functor>(LaunchStream, int64_t, const Functor&);
#define GPUPOOL_INSTANTIATE_ROWS(Functor) \
  template void LaunchRows<Functor>(LaunchStream, int64_t, const Functor&);
