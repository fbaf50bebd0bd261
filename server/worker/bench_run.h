// Measures the worker's device piece by piece. Each measurement is a task of
// the compute thread, so that training steps and requests take turns with
// single measurements.
//
// Thread-safety: Start may be called from any thread. Engine and turnstile must
// outlive the object, which must outlive the turnstile's last task.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "gpupool/v1/device.pb.h"

namespace gpupool::server {

class Engine;
class Turnstile;

class BenchRun {
 public:
  using Done = std::function<void(absl::StatusOr<v1::DeviceBench>)>;

  BenchRun(Engine* engine, Turnstile* turnstile)
      : engine_(engine), turnstile_(turnstile) {}

  // Measures the device, and calls `done` on the compute thread with the result
  // or with the first error:
  //   FAILED_PRECONDITION  it is being measured already, or it has work and
  //                        `force` is false
  // A turnstile that ends meanwhile drops the rest, and `done` with it.
  void Start(bool force, Done done);

 private:
  struct Run {
    v1::DeviceBench bench;
    uint32_t next = 0;
    Done done;
  };
  void Begin(bool force, Done done);
  void MeasureNext(std::shared_ptr<Run> run);

  Engine* const engine_;
  Turnstile* const turnstile_;
  bool is_measuring_ = false;  // of the compute thread
};

}  // namespace gpupool::server
