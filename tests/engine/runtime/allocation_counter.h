// Counts heap allocations through operator new during its lifetime. Allocations
// by the code of other shared libraries are counted separately, because oneDNN
// allocates a few small tables with every execution.
#pragma once

#include <cstdint>

namespace gpupool::engine {

class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

  // Returns the allocations of this binary's own code so far.
  uint64_t ours() const;
};

}  // namespace gpupool::engine
