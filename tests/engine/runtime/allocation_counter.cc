#include "tests/engine/runtime/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

// Bounds of this binary's own code, from the linker.
extern "C" const char __executable_start;
extern "C" const char etext;

namespace gpupool::engine {
namespace {

std::atomic<bool> counting{false};
std::atomic<uint64_t> counted{0};

void* Allocate(std::size_t bytes, const void* caller) {
  if (counting.load(std::memory_order_relaxed) &&
      caller >= &__executable_start && caller < &etext) {
    counted.fetch_add(1, std::memory_order_relaxed);
  }
  void* data = std::malloc(bytes > 0 ? bytes : 1);
  if (data == nullptr) std::abort();
  return data;
}

}  // namespace

AllocationCounter::AllocationCounter() {
  counted = 0;
  counting = true;
}

AllocationCounter::~AllocationCounter() { counting = false; }

uint64_t AllocationCounter::ours() const { return counted; }

}  // namespace gpupool::engine

void* operator new(std::size_t bytes) {
  return gpupool::engine::Allocate(bytes, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return gpupool::engine::Allocate(bytes, __builtin_return_address(0));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t) noexcept { std::free(data); }
