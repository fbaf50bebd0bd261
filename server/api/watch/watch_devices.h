// Private to server/api: one WatchDevices stream. It polls once per interval
// and writes when something has changed.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "gpupool/v1/device.pb.h"
#include "server/api/rpc/event_writer.h"

namespace gpupool::server {

struct ControlContext;

class WatchDevicesStream : public EventWriter<v1::ListDevicesResponse> {
 public:
  // `control` must outlive the stream. `hide` leaves out of a device what the
  // caller may not see.
  WatchDevicesStream(const ControlContext* control, absl::Duration interval,
                     std::function<void(v1::Device*)> hide)
      : control_(control), interval_(interval), hide_(std::move(hide)) {}

 protected:
  Step Next() override;

 private:
  void WakeLater();

  const ControlContext* const control_;
  const absl::Duration interval_;
  const std::function<void(v1::Device*)> hide_;
  absl::Time next_look_ = absl::InfinitePast();
  std::string last_;  // last message written, serialized
};

}  // namespace gpupool::server
