// A stand-in for libnvidia-ml.so: the identical GPUs "GPU-fake", "GPU-fake-1"
// and "GPU-fake-2". The last two have NVLink, the first is on another NUMA
// node. Environment variables of the test choose failures:
//   FAKE_NVML_NO_DRIVER=1  nvmlInit_v2 fails
//   FAKE_NVML_LOST=1       the GPU is lost
//   FAKE_NVML_SILENT=1     the GPU reports no power and no events
//   FAKE_NVML_FAULT_FILE   names a file, which may appear later, of words:
//     xid N     reports Xid N, once per process
//     ecc N     has counted N uncorrectable errors
//     memory N  the query for its memory returns error N
// The GPUs also have the uuids of the stand-in of libcuda.so.1
// (fake_libcuda.cc). For queries about all GPUs:
//   FAKE_NVML_INIT=18         nvmlInit_v2 returns this code
//   FAKE_NVML_FREE_GIB=5      free memory, of 80 GiB
//   FAKE_NVML_COMPUTE_MODE=2, FAKE_NVML_PERSISTENCE=0, FAKE_NVML_MIG=1,
//   FAKE_NVML_REMAP_PENDING=1, FAKE_NVML_REMAP_FAILED=1
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

bool Asked(const char* name) { return std::getenv(name) != nullptr; }

unsigned NumberFrom(const char* name, unsigned otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::atoi(text));
}

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
struct Event {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

constexpr char kNumbered[] = "GPU-00000000-0000-0000-0000-00000000000";

int the_gpus[3] = {};
int the_events = 0;
unsigned long long events_left = 0;
bool reported = false;

// Returns the number after `word` in the file, or 0.
unsigned long long Fault(const char* word) {
  const char* const path = std::getenv("FAKE_NVML_FAULT_FILE");
  std::ifstream file(path == nullptr ? "" : path);
  std::string found;
  unsigned long long number = 0;
  while (file >> found >> number) {
    if (found == word) return number;
  }
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  events_left = 20;
  reported = false;
  if (Asked("FAKE_NVML_NO_DRIVER")) return 9;
  return static_cast<int>(NumberFrom("FAKE_NVML_INIT", 0));
}
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int code) {
  if (code == 18) return "Driver/library version mismatch";
  return code == 9 ? "Driver Not Loaded" : "some error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "580.0.1", size);
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &the_gpus[index];
  return 0;
}
int nvmlDeviceGetName(void*, char* name, unsigned size) {
  std::snprintf(name, size, "NVIDIA Fake");
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  std::snprintf(uuid, size, "%s%d", kNumbered,
                static_cast<int>(static_cast<int*>(device) - the_gpus));
  return 0;
}
int nvmlDeviceGetComputeMode(void*, unsigned* mode) {
  *mode = NumberFrom("FAKE_NVML_COMPUTE_MODE", 0);
  return 0;
}
int nvmlDeviceGetPersistenceMode(void*, unsigned* on) {
  *on = NumberFrom("FAKE_NVML_PERSISTENCE", 1);
  return 0;
}
int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned* pending) {
  *current = NumberFrom("FAKE_NVML_MIG", 0);
  *pending = *current;
  return 0;
}
int nvmlDeviceGetRemappedRows(void*, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
  *corrected = 0;
  *uncorrected = 0;
  *pending = NumberFrom("FAKE_NVML_REMAP_PENDING", 0);
  *failed = NumberFrom("FAKE_NVML_REMAP_FAILED", 0);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  constexpr size_t kPrefix = sizeof(kNumbered) - 1;
  if (std::strncmp(uuid, kNumbered, kPrefix) == 0) {
    *device = &the_gpus[uuid[kPrefix] - '0'];
    return 0;
  }
  constexpr char kUuid[] = "GPU-fake";
  if (std::strncmp(uuid, kUuid, sizeof(kUuid) - 1) != 0) return 6;
  const std::string rest = uuid + sizeof(kUuid) - 1;
  if (!rest.empty() && rest != "-1" && rest != "-2") return 6;
  *device = &the_gpus[rest.empty() ? 0 : rest[1] - '0'];
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, Utilization* out) {
  *out = {75, 30};
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* out) {
  *out = {1000, 600, 400};
  if (Asked("FAKE_NVML_FREE_GIB")) {
    const unsigned long long free = NumberFrom("FAKE_NVML_FREE_GIB", 0);
    *out = {80ULL << 30, free << 30, (80 - free) << 30};
  }
  return Asked("FAKE_NVML_LOST") ? 15 : static_cast<int>(Fault("memory"));
}
int nvmlDeviceGetTemperature(void*, unsigned, unsigned* out) {
  *out = 61;
  return 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* out) {
  *out = 351500;
  return Asked("FAKE_NVML_SILENT") ? 3 : 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* out) {
  *out = 700000;
  return 0;
}
int nvmlDeviceGetClockInfo(void*, unsigned kind, unsigned* out) {
  *out = kind == 1 ? 1980 : 3201;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void*, unsigned kind, unsigned,
                                unsigned long long* out) {
  *out = kind == 0 ? 5 : Fault("ecc");
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count,
                                            Process* out) {
  if (*count < 2) return 7;
  out[0] = {42, 300, 0, 0};
  out[1] = {43, ~0ULL, 0, 0};
  *count = 2;
  return 0;
}
int nvmlDeviceGetP2PStatus(void* a, void* b, unsigned kind, unsigned* out) {
  if (Asked("FAKE_NVML_SILENT")) return 3;
  const bool linked = a != &the_gpus[0] && b != &the_gpus[0];
  *out = kind == 2 && linked ? 0 : 5;
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, unsigned* out) {
  if (Asked("FAKE_NVML_SILENT")) return 3;
  *out = a == &the_gpus[0] || b == &the_gpus[0] ? 50 : 20;
  return 0;
}
int nvmlEventSetCreate(void** events) {
  *events = &the_events;
  return 0;
}
int nvmlEventSetFree(void*) { return 0; }
int nvmlDeviceRegisterEvents(void*, unsigned long long, void*) {
  return Asked("FAKE_NVML_SILENT") ? 3 : 0;
}
int nvmlEventSetWait_v2(void*, Event* out, unsigned) {
  if (events_left > 0) {
    *out = {&the_gpus[0], 0x8, 220 - events_left, 0, 0};
    --events_left;
    return 0;
  }
  const unsigned long long xid = reported ? 0 : Fault("xid");
  if (xid == 0) return 10;  // timeout
  *out = {&the_gpus[0], 0x8, xid, 0, 0};
  reported = true;
  return 0;
}

}  // extern "C"
