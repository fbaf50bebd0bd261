#include "client/cli/jobs/follow.h"

#include <deque>
#include <optional>
#include <ostream>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/cli/jobs/follow_view.h"
#include "client/watch.h"

namespace gpupool::client {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(200);
constexpr absl::Duration kPollInterval = absl::Seconds(1);

// A queue of events and connection losses, from the thread that reads the
// stream to the thread that draws. It is bounded: the reader waits when it is
// full.
class Feed {
 public:
  struct Item {
    std::optional<v1::JobEvent> event;
    std::string notice;
  };

  void Push(Item item) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Feed::HasRoom));
    items_.push_back(std::move(item));
  }

  void Close(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    end_ = std::move(status);
  }

  // Returns all items, after waiting up to `timeout` for the first.
  std::deque<Item> Take(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &Feed::HasNews), timeout);
    return std::exchange(items_, {});
  }

  // Returns the status of the whole watch, once it has ended and all items were
  // taken.
  std::optional<absl::Status> end() const {
    absl::MutexLock lock(&mutex_);
    return items_.empty() ? end_ : std::nullopt;
  }

 private:
  static constexpr size_t kMostItems = 4096;

  bool HasRoom() const { return items_.size() < kMostItems; }
  bool HasNews() const { return !items_.empty() || end_.has_value(); }

  mutable absl::Mutex mutex_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

void Read(Client& client, uint64_t job_id, std::stop_token stop, Feed& feed) {
  WatchOptions options;
  options.on_reconnect = [&feed](const absl::Status& status) {
    feed.Push({std::nullopt, std::string(status.message())});
  };
  feed.Close(WatchJob(client, job_id, options, std::move(stop),
                      [&feed](const v1::JobEvent& event) {
                        feed.Push({event, ""});
                        return true;
                      }));
}

// Asks for the job now and then. Gives up at once when the server is
// unreachable.
class Poller {
 public:
  Poller(const Client& client, uint64_t job_id) {
    // A separate client without retries: a poll must not hold up the drawing
    // while the server is away.
    ClientOptions options = client.options();
    options.call_timeout = absl::Seconds(2);
    options.retry_window = absl::ZeroDuration();
    absl::StatusOr<std::unique_ptr<Client>> own = Client::Create(options);
    if (own.ok()) client_ = *std::move(own);
    request_.set_id(job_id);
  }

  void Poll(absl::Time now, FollowView& view) {
    if (client_ == nullptr || now < next_) return;
    next_ = now + kPollInterval;
    const absl::StatusOr<v1::Job> job = client_->GetJob(request_);
    if (job.ok()) view.OnJob(*job);
  }

 private:
  std::unique_ptr<Client> client_;
  v1::GetJobRequest request_;
  absl::Time next_ = absl::InfinitePast();
};

// Draws until the feed ends, and returns how it ended.
absl::Status Show(Context& context, const FollowOptions& options,
                  const v1::Job& job, Poller& poller, Feed& feed) {
  const Stream& stream =
      options.progress_on_err ? context.err() : context.out();
  FollowView view(stream, job);
  std::optional<absl::Status> end;
  std::string last_notice;
  while (!(end = feed.end()).has_value()) {
    for (const Feed::Item& item : feed.Take(kTick)) {
      if (item.event.has_value() && options.events_as_json) {
        *context.out().stream << MessageToJson(*item.event, false) << std::endl;
      } else if (item.event.has_value()) {
        view.OnEvent(*item.event);
        last_notice.clear();
      } else if (item.notice != last_notice) {
        last_notice = item.notice;
        view.Clear();
        context.Say(absl::StrCat("connection lost, retrying: ", item.notice));
      }
    }
    if (options.events_as_json) continue;
    const absl::Time now = absl::Now();
    poller.Poll(now, view);
    view.Draw(now);
  }
  view.Clear();
  return *end;
}

}  // namespace

absl::StatusOr<v1::Job> FollowJob(Context& context, Client& client,
                                  const v1::Job& job,
                                  const FollowOptions& options) {
  Feed feed;
  Poller poller(client, job.id());
  absl::Status end;
  {
    std::jthread reader([&] { Read(client, job.id(), context.stop(), feed); });
    end = Show(context, options, job, poller, feed);
  }
  if (absl::IsCancelled(end) && context.stop().stop_requested()) {
    context.Say(absl::StrCat("detached; job ", job.id(),
                             " continues. Follow it: gpupool watch ", job.id(),
                             "   Stop it: gpupool cancel ", job.id()));
    return end;
  }
  if (!end.ok()) return end;
  v1::GetJobRequest request;
  request.set_id(job.id());
  return client.GetJob(request);
}

}  // namespace gpupool::client
