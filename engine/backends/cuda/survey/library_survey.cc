#include "engine/backends/cuda/survey/library_survey.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/backends/cuda/driver/shared_library.h"

namespace gpupool::engine::cuda {
namespace {

constexpr int64_t kCudaMajor = 13;
// The first version with ncclCommInitRankConfig is 2.14.
constexpr int64_t kLeastNccl = 21400;
// cuDNN opens these itself when a graph needs them.
constexpr absl::string_view kCudnnParts[] = {"graph",
                                             "ops",
                                             "cnn",
                                             "adv",
                                             "heuristic",
                                             "engines_precompiled",
                                             "engines_runtime_compiled"};

// Returns "libcudnn.so" for "libcudnn.so.9".
absl::string_view WithoutMajor(absl::string_view file) {
  return file.substr(0, file.rfind('.'));
}

bool IsFile(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Returns the folders in which another version of a missing library may be.
std::vector<std::string> Places(const std::string& folders) {
  std::vector<std::string> places =
      absl::StrSplit(folders, ':', absl::SkipEmpty());
  const char* const searched = std::getenv("LD_LIBRARY_PATH");
  for (absl::string_view folder : absl::StrSplit(
           searched == nullptr ? "" : searched, ':', absl::SkipEmpty())) {
    places.emplace_back(folder);
  }
  for (const char* folder :
       {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/usr/lib64"}) {
    places.emplace_back(folder);
  }
  return places;
}

// Returns the path of the same library with another major version, or an empty
// text.
std::string OtherMajor(const std::string& file, const std::string& folders) {
  const std::string stem = absl::StrCat(WithoutMajor(file), ".");
  for (const std::string& place : Places(folders)) {
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(place, error)) {
      const std::string name = entry.path().filename().string();
      if (absl::StartsWith(name, stem) &&
          !absl::StartsWith(name.substr(stem.size()),
                            file.substr(stem.size()))) {
        return entry.path().string();
      }
    }
  }
  return "";
}

// Returns the path of the file itself, or an empty text when it is not there.
std::string FileIn(const std::string& file, const std::string& folders) {
  for (const std::string& place : Places(folders)) {
    const auto path = std::filesystem::path(place) / file;
    if (IsFile(path)) return path.string();
  }
  return "";
}

// Returns the files of that name that fail to load before one loads.
std::vector<std::string> PassedOver(const std::string& file,
                                    const std::string& folders) {
  std::vector<std::string> passed;
  for (const absl::string_view folder :
       absl::StrSplit(folders, ':', absl::SkipEmpty())) {
    const auto path = std::filesystem::path(std::string(folder)) / file;
    if (!IsFile(path)) continue;
    const auto opened = SharedLibrary::Open(path.string(), "");
    if (opened.ok()) break;
    const std::string text(opened.status().message());
    passed.push_back(text.substr(text.find(": ") + 2));
  }
  return passed;
}

// Finds functions in a library that was found.
absl::Status FindIn(const SurveyedLibrary& library,
                    std::initializer_list<FunctionSlot> functions) {
  if (library.state != LibraryState::kFound) {
    return absl::NotFoundError(library.name);
  }
  const auto opened = SharedLibrary::Open(library.path, "");
  return opened.ok() ? opened->Find(functions) : opened.status();
}

void AskCublasLt(const std::string& /*folders*/, SurveyedLibrary& library) {
  size_t (*version)() = nullptr;
  if (FindIn(library, {{"cublasLtGetVersion", version}}).ok()) {
    library.version = LibraryVersion(static_cast<int64_t>(version()));
  }
}

std::string MissingParts(const SurveyedLibrary& cudnn,
                         const std::string& folders) {
  const auto folder = std::filesystem::path(cudnn.path).parent_path();
  std::vector<std::string> missing;
  for (const absl::string_view part : kCudnnParts) {
    const std::string file = absl::StrCat("libcudnn_", part, ".so.9");
    if (!IsFile(folder / file) && FileIn(file, folders).empty()) {
      missing.push_back(file);
    }
  }
  return absl::StrJoin(missing, ", ");
}

void AskCudnn(const std::string& folders, SurveyedLibrary& library) {
  size_t (*version)() = nullptr;
  size_t (*cuda)() = nullptr;
  if (!FindIn(library,
              {{"cudnnGetVersion", version}, {"cudnnGetCudartVersion", cuda}})
           .ok()) {
    library.state = LibraryState::kTooOld;
    library.detail = "9.0.0";
    return;
  }
  library.version = LibraryVersion(static_cast<int64_t>(version()));
  if (const auto major = static_cast<int64_t>(cuda() / 1000);
      major != kCudaMajor) {
    library.state = LibraryState::kOtherCuda;
    library.detail = absl::StrCat(major);
  } else if (library.detail = MissingParts(library, folders);
             !library.detail.empty()) {
    library.state = LibraryState::kPartMissing;
  }
}

void AskNvrtc(const std::string& /*folders*/, SurveyedLibrary& library) {
  int (*version)(int*, int*) = nullptr;
  int major = 0;
  int minor = 0;
  if (FindIn(library, {{"nvrtcVersion", version}}).ok() &&
      version(&major, &minor) == 0) {
    library.version = absl::StrCat(major, ".", minor);
  }
}

void AskNccl(const std::string& /*folders*/, SurveyedLibrary& library) {
  int (*version)(int*) = nullptr;
  int number = 0;
  if (FindIn(library, {{"ncclGetVersion", version}}).ok() &&
      version(&number) == 0) {
    library.version = LibraryVersion(number);
    if (number < kLeastNccl) {
      library.state = LibraryState::kTooOld;
      library.detail = LibraryVersion(kLeastNccl);
    }
  }
}

constexpr KnownLibrary kKnown[] = {
    {"cuBLASLt", "libcublasLt.so.13", AskCublasLt},
    {"NVRTC", "libnvrtc.so.13", AskNvrtc},
    {"cuDNN", "libcudnn.so.9", AskCudnn},
    {"NCCL", "libnccl.so.2", AskNccl},
    {"CUPTI", "libcupti.so.13", nullptr},
};

}  // namespace

SurveyedLibrary FindLibrary(const std::string& name, const std::string& file,
                            const std::string& folders) {
  SurveyedLibrary library = {name, file};
  const auto opened = SharedLibrary::Open(file, folders);
  if (opened.ok()) {
    library.state = LibraryState::kFound;
    library.path = opened->path();
    library.passed_over = PassedOver(file, folders);
    return library;
  }
  // The file exists but does not load: the linker's reason helps more than
  // "missing".
  library.path = FileIn(file, folders);
  if (!library.path.empty()) {
    library.state = LibraryState::kUnusable;
    library.detail = std::string(opened.status().message());
  } else if (library.detail = OtherMajor(file, folders);
             !library.detail.empty()) {
    library.state = LibraryState::kOtherMajor;
  }
  return library;
}

absl::Span<const KnownLibrary> KnownLibraries() { return kKnown; }

SurveyedLibrary SurveyLibrary(const KnownLibrary& known,
                              const std::string& folders,
                              const std::vector<SurveyedLibrary>& before) {
  // Loads what cuDNN will look for by its bare name.
  for (const SurveyedLibrary& library : before) {
    if (library.state == LibraryState::kFound) {
      SharedLibrary::Open(library.path, "").status().IgnoreError();
    }
  }
  SurveyedLibrary library = FindLibrary(known.name, known.file, folders);
  if (library.state == LibraryState::kFound && known.ask != nullptr) {
    known.ask(folders, library);
  }
  return library;
}

SurveyedLibrary FatalLibrary(const KnownLibrary& known,
                             const std::string& folders,
                             const std::string& reason) {
  SurveyedLibrary library = {known.name, known.file};
  library.path = FileIn(known.file, folders);
  library.state = LibraryState::kFatal;
  library.detail = reason;
  return library;
}

}  // namespace gpupool::engine::cuda
