// Runs a function in a child process with limits, so that a crash or a hang
// ends the child alone. The child inherits the standard streams.
//
// The caller must have no other threads: a child has only the one that forked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace gpupool::engine::fuzz {

// Memory that the caller shares with its children. Zero at first.
class SharedBytes {
 public:
  explicit SharedBytes(size_t bytes);
  ~SharedBytes();
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
  const size_t bytes_;
};

struct ChildLimits {
  uint64_t memory_bytes = 0;  // of private memory; 0: no limit
  int wall_seconds = 0;       // 0: no limit
};

// Gives the process that many more seconds of the processor, after which the
// system ends it. A limit of the processor's time does not depend on how busy
// the machine is. For use in a child.
void AllowProcessorSeconds(int seconds);

// Runs `work` in a child and waits. Returns an empty text if the child ended by
// itself with exit code 0, else how it ended: "signal 6 (Aborted)",
// "hang: 20 s of the processor", "exit code 3".
std::string RunInChild(const ChildLimits& limits,
                       const std::function<void()>& work);

}  // namespace gpupool::engine::fuzz
