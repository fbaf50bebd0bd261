// A stand-in for libnvidia-ml.so: one GPU, "GPU-fake". Environment variables
// of the test choose what goes wrong:
//   FAKE_NVML_NO_DRIVER=1  nvmlInit_v2 fails
//   FAKE_NVML_LOST=1       the GPU is lost
//   FAKE_NVML_SILENT=1     the GPU tells no power and reports no events
#include <cstdlib>
#include <cstring>

namespace {

bool Asked(const char* name) { return std::getenv(name) != nullptr; }

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

int the_gpu = 0;
int the_events = 0;
int events_left = 0;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  events_left = 20;
  return Asked("FAKE_NVML_NO_DRIVER") ? 9 : 0;
}
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : "some error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "580.0.1", size);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &the_gpu;
  return std::strcmp(uuid, "GPU-fake") == 0 ? 0 : 6;
}
int nvmlDeviceGetUtilizationRates(void*, Utilization* out) {
  *out = {75, 30};
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* out) {
  *out = {1000, 600, 400};
  return Asked("FAKE_NVML_LOST") ? 15 : 0;
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
  *out = kind == 0 ? 5 : 0;
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
int nvmlEventSetCreate(void** events) {
  *events = &the_events;
  return 0;
}
int nvmlEventSetFree(void*) { return 0; }
int nvmlDeviceRegisterEvents(void*, unsigned long long, void*) {
  return Asked("FAKE_NVML_SILENT") ? 3 : 0;
}
int nvmlEventSetWait_v2(void*, Event* out, unsigned) {
  if (events_left == 0) return 10;  // timeout
  *out = {&the_gpu, 0x8, static_cast<unsigned long long>(100 - events_left), 0,
          0};
  --events_left;
  return 0;
}

}  // extern "C"
