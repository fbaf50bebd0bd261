// Limits of tensors, which bound arrays wherever tensors are kept: in shapes,
// kernels, files of data and the slots of requests.
#pragma once

namespace gpupool::engine {

inline constexpr int kMaxRank = 8;
// Dimensions of one example. The batch is one more.
inline constexpr int kMaxExampleRank = kMaxRank - 1;

}  // namespace gpupool::engine
