// Counts heap allocations made through operator new while it lives, apart
// from those made by the code of other shared libraries: oneDNN allocates a
// few small tables with every execution, which is out of our hands.
#pragma once

#include <cstdint>

namespace gpupool::engine {

class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

  // Allocations of this binary's own code so far.
  uint64_t ours() const;
};

}  // namespace gpupool::engine
