// Private to server/api: one WatchJob stream. It reads committed events from
// the store in small pages, so that a slow client costs no memory. Control
// wakes it when there are more.
#pragma once

#include <cstdint>
#include <deque>

#include "gpupool/v1/job.pb.h"
#include "server/api/rpc/event_writer.h"

namespace gpupool::server {

struct ControlContext;

class WatchJobStream : public EventWriter<v1::JobEvent> {
 public:
  // `control` must outlive the stream.
  WatchJobStream(const ControlContext* control,
                 const v1::WatchJobRequest& request)
      : control_(control),
        job_(request.id()),
        after_(request.after_sequence()),
        mark_caught_up_(request.mark_caught_up()) {}

 protected:
  void OnBegin() override;
  void OnEnd() override;
  Step Next() override;

 private:
  absl::Status ReadPage();
  v1::JobEvent CaughtUp() const;

  const ControlContext* const control_;
  const uint64_t job_;
  uint64_t after_;       // sequence of the last event read
  bool mark_caught_up_;  // whether that is still to be sent
  uint64_t subscription_ = 0;
  bool subscribed_ = false;
  bool ended_ = false;  // whether the job's last event was written
  std::deque<v1::JobEvent> page_;
};

}  // namespace gpupool::server
