// One short training of `gpupool compare`: the job that is submitted for a
// precision, and what is measured while it trains. Pure.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/output/job_curves.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

struct PrecisionRun {
  v1::Precision precision = v1::HIGHEST;
  v1::Job job;           // as last known; id 0: there was none
  absl::Status refusal;  // why there was no job
  Curve losses;
  // Seconds of one step, as each report says. A report that covers several
  // steps gives their mean.
  std::vector<double> step_seconds;

  // Takes an event of the job. Needs the job's spec.
  void OnEvent(const v1::JobEvent& event);

  bool trained() const { return job.state() == v1::SUCCEEDED; }
  // Returns the rows that a step reads.
  double rows_per_step() const;
  // Returns 0 before the first report.
  double median_step_seconds() const;
  // Returns why it did not train, or "".
  std::string reason() const;
};

// Returns a job that trains the same model on the same rows in the same order
// for `steps` steps, with `precision`. Its name ends in the precision. It
// publishes nothing, is not held, and evaluates only at its end. A warm-up that
// is not over by then keeps its beginning.
v1::JobSpec ShortJob(v1::JobSpec spec, v1::Precision precision, uint64_t steps);

// Makes `spec` run where `job` ran: on the same device, or on as many devices
// of the same kind. Does nothing for a job that never started.
void RunWhere(const v1::Job& job, v1::JobSpec& spec);

// Returns why the devices on which `spec` may run have no arithmetic of this
// precision. Returns "" if one of them has it, or if no device of the pool fits
// the spec.
std::string WhyNot(v1::Precision precision, const v1::JobSpec& spec,
                   const v1::ListDevicesResponse& pool);

}  // namespace gpupool::client
