// State that all kernels of one CPU back end share. Belongs to the compute
// thread.
#pragma once

#include <cstdint>
#include <dnnl.hpp>

namespace gpupool::engine {

class CpuContext {
 public:
  explicit CpuContext(int threads)
      : threads_(threads),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {}

  int threads() const { return threads_; }
  // Return how many threads a node is worth, given its operations or the bytes
  // that it reads and writes. A thread that still spins takes over work in 1 to
  // 2 microseconds. A thread that sleeps needs 25 to 50 (measured on a virtual
  // machine with 2 cores). So a node that takes one thread less than about 40
  // microseconds stays on that thread.
  int ThreadsForFlops(uint64_t flops) const {
    return flops < kSerialFlops ? 1 : threads_;
  }
  int ThreadsForBytes(uint64_t bytes) const {
    return bytes < kSerialBytes ? 1 : threads_;
  }
  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& stream() const { return stream_; }

 private:
  static constexpr uint64_t kSerialFlops = 5'000'000;
  static constexpr uint64_t kSerialBytes = 1 << 20;

  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
};

}  // namespace gpupool::engine
