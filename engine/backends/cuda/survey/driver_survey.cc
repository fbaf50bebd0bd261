#include "engine/backends/cuda/survey/driver_survey.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/backends/cuda/driver/shared_library.h"
#include "engine/base/job_limits.h"

namespace gpupool::engine::cuda {
namespace {

// Constants of the driver's interface, which never change.
constexpr int kCudaSuccess = 0;
constexpr int kNotFound = 500;  // a function that is missing
constexpr int kMajor = 75;
constexpr int kMinor = 76;
constexpr int kVirtualMemory = 102;

struct Uuid {
  std::array<unsigned char, 16> bytes;
};

struct DriverFunctions {
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*uuid)(Uuid*, int) = nullptr;
  int (*total)(size_t*, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*reaches)(int*, int, int) = nullptr;
};

std::string UuidText(const Uuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x", uuid.bytes[i]);
  }
  return text;
}

class Surveyor {
 public:
  Surveyor(const DriverFunctions& functions, DriverSurvey& survey)
      : f_(functions), survey_(survey) {}

  void Run() {
    // This function is older than cuInit and works even when cuInit fails.
    if (f_.version(&survey_.version) != kCudaSuccess) survey_.version = 0;
    int count = 0;
    if (!Worked("cuInit", f_.init(0)) ||
        !Worked("cuDeviceGetCount", f_.count(&count))) {
      return;
    }
    for (int i = 0; i < count && i < kMaxGpus; ++i) {
      if (!AddGpu(i)) return;
    }
    for (size_t a = 0; a < gpus_.size(); ++a) {
      for (size_t b = 0; b < gpus_.size(); ++b) {
        int reaches = a == b ? 1 : 0;
        if (a != b &&
            f_.reaches(&reaches, gpus_[a], gpus_[b]) != kCudaSuccess) {
          reaches = 0;
        }
        survey_.gpus[a].peers.push_back(reaches != 0);
      }
    }
  }

 private:
  bool Worked(const char* call, int code) {
    if (code == kCudaSuccess) return true;
    survey_.call = call;
    survey_.code = code;
    return false;
  }

  bool AddGpu(int index) {
    int gpu = 0;
    int major = 0;
    int minor = 0;
    size_t total = 0;
    std::array<char, 128> name = {};
    if (!Worked("cuDeviceGet", f_.get(&gpu, index)) ||
        !Worked("cuDeviceGetName",
                f_.name(name.data(), static_cast<int>(name.size()) - 1, gpu)) ||
        !Worked("cuDeviceGetAttribute", f_.attribute(&major, kMajor, gpu)) ||
        !Worked("cuDeviceGetAttribute", f_.attribute(&minor, kMinor, gpu)) ||
        !Worked("cuDeviceTotalMem", f_.total(&total, gpu))) {
      return false;
    }
    SurveyedGpu surveyed;
    surveyed.name = name.data();
    surveyed.capability = major * 10 + minor;
    surveyed.total_bytes = total;
    Uuid uuid = {};
    // The rest may fail on old drivers and then keeps its default.
    if (f_.uuid(&uuid, gpu) == kCudaSuccess) surveyed.uuid = UuidText(uuid);
    int works = 1;
    if (f_.attribute(&works, kVirtualMemory, gpu) == kCudaSuccess) {
      surveyed.virtual_memory = works != 0;
    }
    gpus_.push_back(gpu);
    survey_.gpus.push_back(std::move(surveyed));
    return true;
  }

  const DriverFunctions& f_;
  DriverSurvey& survey_;
  std::vector<int> gpus_;
};

}  // namespace

DriverSurvey SurveyDriver(const std::string& library) {
  DriverSurvey survey;
  const auto opened = SharedLibrary::Open(library, "");
  if (!opened.ok()) {
    survey.load_error = std::string(opened.status().message());
    return survey;
  }
  survey.loaded = true;
  survey.path = opened->path();
  DriverFunctions f;
  const absl::Status found =
      opened->Find({{"cuInit", f.init},
                    {"cuDriverGetVersion", f.version},
                    {"cuDeviceGetCount", f.count},
                    {"cuDeviceGet", f.get},
                    {"cuDeviceGetName", f.name},
                    {"cuDeviceGetUuid", f.uuid},
                    {"cuDeviceTotalMem_v2", f.total},
                    {"cuDeviceGetAttribute", f.attribute},
                    {"cuDeviceCanAccessPeer", f.reaches}});
  if (!found.ok()) {
    survey.call = std::string(found.message());
    survey.code = kNotFound;
    return survey;
  }
  Surveyor(f, survey).Run();
  return survey;
}

}  // namespace gpupool::engine::cuda
