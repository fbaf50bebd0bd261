// A job whose row takes several pages, so that a batch takes several writes.
#pragma once

#include <cstdint>
#include <string>

#include "gpupool/v1/job.pb.h"

namespace gpupool::server {

inline v1::Job JobWithId(uint64_t id) {
  v1::Job job;
  job.set_id(id);
  job.mutable_spec()->set_name("job");
  job.set_request_id("request-" + std::to_string(id));
  job.set_state(v1::QUEUED);
  job.set_waiting_reason(std::string(10000, 'w'));
  return job;
}

}  // namespace gpupool::server
