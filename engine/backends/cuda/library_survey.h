// Which of NVIDIA's libraries this machine has, found where the module looks
// for them, with their versions and places.
//
// Thread-safety: any thread. Loads the libraries for good, and a broken one may
// end the process: callers ask in a process of its own.
#pragma once

#include <string>
#include <vector>

namespace gpupool::engine::cuda {

enum class LibraryState {
  kFound,
  kMissing,
  kOtherMajor,   // only another major version is there; `detail` names it
  kOtherCuda,    // made for another major version of CUDA, which `detail` is
  kTooOld,       // `detail` is the least version that will do
  kPartMissing,  // `detail` names the parts that are not there
  kUnusable,     // `detail` is the linker's reason
};

struct SurveyedLibrary {
  std::string name;     // "cuDNN"
  std::string file;     // "libcudnn.so.9"
  std::string path;     // where it was found; may be empty
  std::string version;  // "9.19.0"; empty where it does not tell
  LibraryState state = LibraryState::kMissing;
  std::string detail;
};

// One library, without its version: found, missing, of another major version or
// unusable. `file` is as in "libcudnn.so.9".
SurveyedLibrary FindLibrary(const std::string& name, const std::string& file,
                            const std::string& folders);

// cuBLASLt, cuDNN, NVRTC, NCCL and CUPTI, in this order. Looks in `folders`,
// separated by colons, and where the dynamic linker does.
std::vector<SurveyedLibrary> SurveyLibraries(const std::string& folders);

}  // namespace gpupool::engine::cuda
