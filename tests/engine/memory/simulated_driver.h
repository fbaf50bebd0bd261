// Simulates a device's virtual memory management. Records ranges, chunks and
// mappings, checks every rule of PageSource (the rules of CUDA's cuMem calls),
// has a capacity, and fails when a test says so.
//
// With `backed` set, addresses are real and unmapped pages cannot be touched.
// Otherwise addresses are numbers, and memory may be as large as a GPU's.
//
// Thread-safety: none, as PageSource. Ownership: the real addresses.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/memory/page_source.h"

namespace gpupool::engine {

struct SimulatedDriverOptions {
  uint64_t capacity_bytes = uint64_t{1} << 40;
  std::vector<uint64_t> chunk_sizes = {32 << 20, 8 << 20, 2 << 20};
  uint64_t most_range_bytes = uint64_t{1} << 60;
  bool backed = false;
};

class SimulatedDriver : public PageSource {
 public:
  explicit SimulatedDriver(SimulatedDriverOptions options = {});
  ~SimulatedDriver() override;

  // Makes the call with this number fail, with Exhausted or, if `fault`,
  // Internal. The first call is 1. All kinds of calls are counted.
  void FailCall(uint64_t call, bool fault = false);
  void SetCapacity(uint64_t bytes) { options_.capacity_bytes = bytes; }

  uint64_t calls() const { return calls_; }
  uint64_t created_chunks() const { return last_; }
  uint64_t live_bytes() const { return live_bytes_; }
  uint64_t peak_bytes() const { return peak_bytes_; }
  // Returns the number of ranges, chunks and mappings that were not given back.
  uint64_t open_objects() const;
  // Returns descriptions of the broken rules.
  const std::vector<std::string>& violations() const { return violations_; }
  bool IsMapped(const PageRange& range) const;

  uint64_t granularity() const override { return options_.chunk_sizes.back(); }
  absl::Span<const uint64_t> chunk_sizes() const override {
    return options_.chunk_sizes;
  }
  absl::StatusOr<uint64_t> ReserveRange(uint64_t bytes) override;
  absl::Status FreeRange(const PageRange& range) override;
  absl::StatusOr<ChunkHandle> CreateChunk(uint64_t bytes) override;
  absl::Status ReleaseChunk(ChunkHandle chunk) override;
  absl::Status Map(const PageRange& at, ChunkHandle chunk) override;
  absl::Status Unmap(const PageRange& at) override;

 private:
  struct Chunk {
    uint64_t bytes = 0;
    uint64_t mapped_at = 0;  // 0: nowhere
  };
  absl::Status CountCall();
  absl::Status Violation(const std::string& rule);
  bool IsAligned(uint64_t value) const { return value % granularity() == 0; }
  bool IsReserved(const PageRange& range) const;

  SimulatedDriverOptions options_;
  uint64_t calls_ = 0;
  uint64_t failing_call_ = 0;
  bool fault_ = false;
  uint64_t next_address_ = uint64_t{1} << 44;
  std::map<uint64_t, uint64_t> ranges_;                     // address to bytes
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> real_;  // whole mappings
  std::map<ChunkHandle, Chunk> chunks_;
  std::map<uint64_t, ChunkHandle> mappings_;  // by address
  ChunkHandle last_ = 0;
  uint64_t live_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace gpupool::engine
