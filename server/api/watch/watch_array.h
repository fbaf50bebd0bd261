// Private to server/api: one WatchArray stream. It polls twice a second and
// writes when a count has changed.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "gpupool/v1/job.pb.h"
#include "server/api/rpc/event_writer.h"

namespace gpupool::server {

struct ControlContext;

class WatchArrayStream : public EventWriter<v1::JobArray> {
 public:
  // `control` must outlive the stream.
  WatchArrayStream(const ControlContext* control, uint64_t id)
      : control_(control), id_(id) {}

 protected:
  Step Next() override;

 private:
  void WakeLater();

  const ControlContext* const control_;
  const uint64_t id_;
  absl::Time next_look_ = absl::InfinitePast();
  std::string last_;  // last message written, serialized
  bool ended_ = false;
};

}  // namespace gpupool::server
