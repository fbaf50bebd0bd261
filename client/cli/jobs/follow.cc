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
  options.stop = std::move(stop);
  feed.Close(
      WatchJob(client, job_id, options, [&feed](const v1::JobEvent& event) {
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

// The drawing side, used by one thread.
class Display {
 public:
  Display(Context& context, const Client& client, const v1::Job& job,
          const FollowOptions& options)
      : context_(context),
        options_(options),
        poller_(client, job.id()),
        view_(options.progress_on_err ? context.err() : context.out(), job,
              options.curves) {}

  // Draws until the feed ends, and returns how it ended.
  absl::Status Show(Feed& feed) {
    std::optional<absl::Status> end;
    while (!(end = feed.end()).has_value()) {
      for (const Feed::Item& item : feed.Take(kTick)) ShowItem(item);
      if (options_.events_as_json) continue;
      const absl::Time now = absl::Now();
      poller_.Poll(now, view_);
      view_.Draw(now);
    }
    if (options_.events_as_json) return *end;
    view_.PrintCurves();
    return *end;
  }

 private:
  void ShowItem(const Feed::Item& item) {
    if (item.event.has_value() && options_.take_events) {
      options_.take_events(*item.event);
    }
    if (item.event.has_value() && options_.events_as_json) {
      *context_.out().stream << MessageToJson(*item.event, false) << std::endl;
    } else if (item.event.has_value()) {
      view_.OnEvent(*item.event);
      last_notice_.clear();
    } else if (item.notice != last_notice_) {
      last_notice_ = item.notice;
      view_.Clear();
      context_.Say(absl::StrCat("connection lost, retrying: ", item.notice));
    }
  }

  Context& context_;
  const FollowOptions& options_;
  Poller poller_;
  FollowView view_;
  std::string last_notice_;
};

}  // namespace

absl::StatusOr<v1::Job> FollowJob(Context& context, Client& client,
                                  const v1::Job& job,
                                  const FollowOptions& options) {
  Feed feed;
  Display display(context, client, job, options);
  absl::Status end;
  {
    std::jthread reader([&] { Read(client, job.id(), context.stop(), feed); });
    end = display.Show(feed);
  }
  if (absl::IsCancelled(end) && context.stop().stop_requested() &&
      options.interrupt_detaches) {
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
