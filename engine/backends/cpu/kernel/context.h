// What all kernels of one CPU back end share. Belongs to the compute thread.
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
  // Threads that still look for work take it over in one to two microseconds,
  // threads that sleep need 25 to 50 (virtual machine, 2 cores): what one
  // thread does in less than some forty stays there. `flops` and `bytes` are
  // those of the whole node, read and written.
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
