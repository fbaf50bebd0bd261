// Finds NVIDIA's libraries where the module looks for them, with their versions
// and paths.
//
// Thread-safety: any thread. Libraries stay loaded, and a broken one may end
// the process, so ask in a separate process.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace gpupool::engine::cuda {

enum class LibraryState {
  kFound,
  kMissing,
  kOtherMajor,   // `detail` is the major version that is there
  kOtherCuda,    // made for the CUDA major version in `detail`
  kTooOld,       // `detail` is the least version needed
  kPartMissing,  // `detail` names the missing parts
  kUnusable,     // `detail` is the linker's reason
  kFatal,        // ends or hangs its process; `detail` says how
};

struct SurveyedLibrary {
  std::string name;     // "cuDNN"
  std::string file;     // "libcudnn.so.9"
  std::string path;     // may be empty
  std::string version;  // "9.19.0"; empty when unknown
  LibraryState state = LibraryState::kMissing;
  std::string detail;
  // Files of the same name that could not be loaded before one was found, each
  // with the linker's reason.
  std::vector<std::string> passed_over;
};

// Looks for one library without asking for its version. The state is kFound,
// kMissing, kOtherMajor or kUnusable. `file` is as in "libcudnn.so.9".
SurveyedLibrary FindLibrary(const std::string& name, const std::string& file,
                            const std::string& folders);

struct KnownLibrary {
  const char* name;  // "cuDNN"
  const char* file;  // "libcudnn.so.9"
  // Asks a library that was found for its version. Sets the state and the
  // detail if it cannot be used. Null: there is nothing to ask.
  void (*ask)(const std::string& folders, SurveyedLibrary& library);
};

// Returns cuBLASLt, NVRTC, cuDNN, NCCL and CUPTI. The order matters: cuDNN uses
// the cuBLASLt and the compiler that are already loaded.
absl::Span<const KnownLibrary> KnownLibraries();

// Surveys one library. Looks in `folders`, which are separated by colons, and
// where the dynamic linker looks. Loads the libraries of `before` that were
// found first.
SurveyedLibrary SurveyLibrary(const KnownLibrary& known,
                              const std::string& folders,
                              const std::vector<SurveyedLibrary>& before = {});

// Describes a library that ended or hung the process that asked for it. Loads
// nothing.
SurveyedLibrary FatalLibrary(const KnownLibrary& known,
                             const std::string& folders,
                             const std::string& reason);

}  // namespace gpupool::engine::cuda
