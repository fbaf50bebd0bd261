// A stand-in for any of NVIDIA's libraries, for code that asks for their
// versions. Environment variables of the test choose the answers:
//   FAKE_CUDNN_CUDA=12080     the CUDA that cuDNN was made for; default 13000
//   FAKE_NCCL_VERSION=20800   default 22803
//   FAKE_NCCL_SIGNAL=7        ends the process that asks NCCL
#include <csignal>
#include <cstddef>
#include <cstdlib>

namespace {

int VendorNumber(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130100; }
size_t cudnnGetVersion() { return 91900; }
size_t cudnnGetCudartVersion() {
  return static_cast<size_t>(VendorNumber("FAKE_CUDNN_CUDA", 13000));
}
int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
int ncclGetVersion(int* version) {
  const int signal = VendorNumber("FAKE_NCCL_SIGNAL", 0);
  if (signal != 0) std::raise(signal);
  *version = VendorNumber("FAKE_NCCL_VERSION", 22803);
  return 0;
}

}  // extern "C"
