// A stand-in for libcuda.so.1, for code that asks the driver about itself: GPUs
// of 80 GiB that reach each other's memory. It runs nothing. Environment
// variables of the test choose its answers:
//   FAKE_CUDA_VERSION=12040        the CUDA that it runs; default 13000
//   FAKE_CUDA_INIT=803             cuInit returns this code
//   FAKE_CUDA_COUNT=2              number of GPUs; default 1
//   FAKE_CUDA_CAPABILITY=75        of all of them; default 90
//   FAKE_CUDA_APART=1              no GPU reaches another
//   FAKE_CUDA_NO_VIRTUAL_MEMORY=1  they cannot map memory
//   FAKE_CUDA_CRASH=1, FAKE_CUDA_HANG=1  cuInit ends the process, or never ends
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int Number(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

struct Uuid {
  unsigned char bytes[16];
};

}  // namespace

extern "C" {

int cuInit(unsigned) {
  if (Number("FAKE_CUDA_CRASH", 0) != 0) ::raise(SIGKILL);
  while (Number("FAKE_CUDA_HANG", 0) != 0) ::pause();
  return Number("FAKE_CUDA_INIT", 0);
}
int cuDriverGetVersion(int* version) {
  *version = Number("FAKE_CUDA_VERSION", 13000);
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = Number("FAKE_CUDA_COUNT", 1);
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "NVIDIA Fake");
  return 0;
}
int cuDeviceGetUuid(Uuid* uuid, int device) {
  std::memset(uuid, 0, sizeof(*uuid));
  uuid->bytes[15] = static_cast<unsigned char>(device);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{80} << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int capability = Number("FAKE_CUDA_CAPABILITY", 90);
  if (attribute == 75) *value = capability / 10;
  if (attribute == 76) *value = capability % 10;
  if (attribute == 102) {
    *value = Number("FAKE_CUDA_NO_VIRTUAL_MEMORY", 0) == 0 ? 1 : 0;
  }
  return attribute == 75 || attribute == 76 || attribute == 102 ? 0 : 1;
}
int cuDeviceCanAccessPeer(int* can, int, int) {
  *can = Number("FAKE_CUDA_APART", 0) == 0 ? 1 : 0;
  return 0;
}

}  // extern "C"
