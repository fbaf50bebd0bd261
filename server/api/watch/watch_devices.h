// Private to server/api: one WatchDevices stream. It polls once per interval
// and writes when something has changed.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "gpupool/v1/device.pb.h"
#include "server/api/rpc/event_writer.h"

namespace gpupool::server {

struct ControlContext;

class WatchDevicesStream : public EventWriter<v1::ListDevicesResponse> {
 public:
  // `control` must outlive the stream.
  WatchDevicesStream(const ControlContext* control, absl::Duration interval)
      : control_(control), interval_(interval) {}

 protected:
  Step Next() override;

 private:
  void WakeLater();

  const ControlContext* const control_;
  const absl::Duration interval_;
  absl::Time next_look_ = absl::InfinitePast();
  std::string last_;  // last message written, serialized
};

}  // namespace gpupool::server
