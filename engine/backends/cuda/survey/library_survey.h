// Which of NVIDIA's libraries this machine has, found where the module looks
// for them, with their versions and places.
//
// Thread-safety: any thread. Loads the libraries for good, and a broken one may
// end the process: callers ask in a process of its own.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace gpupool::engine::cuda {

enum class LibraryState {
  kFound,
  kMissing,
  kOtherMajor,   // only another major version is there; `detail` names it
  kOtherCuda,    // made for another major version of CUDA, which `detail` is
  kTooOld,       // `detail` is the least version that will do
  kPartMissing,  // `detail` names the parts that are not there
  kUnusable,     // `detail` is the linker's reason
  kFatal,        // it ends or stops who loads it; `detail` tells how
};

struct SurveyedLibrary {
  std::string name;     // "cuDNN"
  std::string file;     // "libcudnn.so.9"
  std::string path;     // where it was found; may be empty
  std::string version;  // "9.19.0"; empty where it does not tell
  LibraryState state = LibraryState::kMissing;
  std::string detail;
  // Files of its name that were passed over on the way to the one that was
  // found, each with the linker's reason.
  std::vector<std::string> passed_over;
};

// One library, without its version: found, missing, of another major version or
// unusable. `file` is as in "libcudnn.so.9".
SurveyedLibrary FindLibrary(const std::string& name, const std::string& file,
                            const std::string& folders);

struct KnownLibrary {
  const char* name;  // "cuDNN"
  const char* file;  // "libcudnn.so.9"
};

// cuBLASLt, NVRTC, cuDNN, NCCL and CUPTI. The order matters: cuDNN finds the
// cuBLASLt and the compiler that are loaded.
absl::Span<const KnownLibrary> KnownLibraries();

// One of them. Looks in `folders`, separated by colons, and where the dynamic
// linker does. Those of `before` that were found are loaded first.
SurveyedLibrary SurveyLibrary(const KnownLibrary& known,
                              const std::string& folders,
                              const std::vector<SurveyedLibrary>& before = {});

// Describes a library that ended or stopped who asked for it. Loads
// nothing.
SurveyedLibrary FatalLibrary(const KnownLibrary& known,
                             const std::string& folders,
                             const std::string& reason);

}  // namespace gpupool::engine::cuda
