#include "engine/backends/cuda/driver/driver_version.h"

#include <fstream>
#include <iomanip>

namespace gpupool::engine::cuda {

std::string LoadedDriverVersion(const std::string& file) {
  constexpr int kMostCharacters = 64;
  std::ifstream in(file);
  std::string version;
  in >> std::setw(kMostCharacters) >> version;
  return version;
}

}  // namespace gpupool::engine::cuda
