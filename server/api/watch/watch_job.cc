#include "server/api/watch/watch_job.h"

#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/control/calls/context.h"
#include "server/control/jobs/event_streams.h"
#include "server/control/jobs/job_requests.h"

namespace gpupool::server {
namespace {

constexpr int kPageEvents = 64;

bool IsEnd(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

}  // namespace

// Weak, so that the subscription does not keep the stream alive.
void WatchJobStream::OnBegin() {
  std::weak_ptr<EventWriter<v1::JobEvent>> weak = weak_from_this();
  subscription_ = control_->streams->Subscribe(job_, [weak] {
    if (const auto stream = weak.lock()) stream->Wake();
  });
  subscribed_ = true;
}

void WatchJobStream::OnEnd() {
  if (subscribed_) control_->streams->Unsubscribe(subscription_);
}

WatchJobStream::Step WatchJobStream::Next() {
  if (ended_) return absl::OkStatus();
  if (page_.empty()) {
    // Read the state before the events: an ended job gets no more events, so
    // that none is missed.
    const auto job = server::GetJob(*control_, job_);
    if (!job.ok()) return job.status();
    const absl::Status read = ReadPage();
    if (!read.ok()) return read;
    if (page_.empty() && std::exchange(mark_caught_up_, false)) {
      return CaughtUp();
    }
    if (page_.empty() && IsEnd(job->state())) return absl::OkStatus();
    if (page_.empty()) return Idle{};
  }
  v1::JobEvent event = std::move(page_.front());
  page_.pop_front();
  ended_ = event.has_state_change() && IsEnd(event.state_change().to());
  return event;
}

v1::JobEvent WatchJobStream::CaughtUp() const {
  v1::JobEvent event;
  event.set_sequence(after_);
  event.set_job_id(job_);
  event.mutable_caught_up();
  return event;
}

absl::Status WatchJobStream::ReadPage() {
  ASSIGN_OR_RETURN(auto events,
                   server::ReadEvents(*control_, job_, {after_, kPageEvents}));
  for (v1::JobEvent& event : events) {
    after_ = event.sequence();
    page_.push_back(std::move(event));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
