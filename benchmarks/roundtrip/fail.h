// The end of a benchmark that cannot measure.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

namespace gpupool::benchmarks {

// Says what went wrong and ends the process.
[[noreturn]] inline void Fail(const std::string& what) {
  std::cerr << "infer_roundtrip: " << what << "\n";
  std::exit(1);
}

}  // namespace gpupool::benchmarks
