#include "server/trace/span_exporter.h"

#include <google/protobuf/arena.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

// Spans that are sent without a wait: few enough that those which come before
// the thread wakes are in the same request.
constexpr size_t kSendAt = 1536;
constexpr size_t kMostPerRequest = 2048;
constexpr int kMostTries = 5;
constexpr absl::Duration kLongestWait = absl::Seconds(30);
constexpr absl::Duration kEndGrace = absl::Seconds(2);
constexpr absl::Duration kBetweenMessages = absl::Minutes(1);

// Keeps a collector that closes its connection from ending the process.
void BlockPipeSignal() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
}

// Returns a request with the spans in wire format.
std::string BodyOf(const TraceResource& resource,
                   absl::Span<const Span> spans) {
  // A request has many small parts, which an arena makes at half the cost.
  google::protobuf::Arena arena;
  auto* request =
      google::protobuf::Arena::CreateMessage<otlp::v1::ExportTraceRequest>(
          &arena);
  FillRequest(resource, spans, request);
  return request->SerializeAsString();
}

}  // namespace

absl::Duration WaitBeforeTry(int tries, absl::Duration first,
                             std::optional<absl::Duration> retry_after) {
  if (retry_after.has_value()) return std::max(first, *retry_after);
  absl::Duration wait = first;
  for (int i = 1; i < tries && wait < kLongestWait; ++i) wait *= 2;
  return std::min(wait, kLongestWait);
}

SpanExporter::SpanExporter(SpanExporterOptions options)
    : options_(std::move(options)),
      buffer_(options_.buffer_limit, std::min(kSendAt, options_.buffer_limit),
              options_.interval, options_.waiting),
      collector_(options_.url) {
  thread_ = std::thread([this] { Run(); });
}

SpanExporter::~SpanExporter() {
  stopping_.Notify();
  buffer_.Close();
  if (!ended_.WaitForNotificationWithTimeout(kEndGrace)) collector_.Stop();
  thread_.join();
}

void SpanExporter::Add(std::vector<Span> spans) {
  const size_t dropped = buffer_.Add(std::move(spans));
  if (dropped == 0) return;
  Count(SpanOutcome::kDropped, dropped);
  TellDropped(dropped);
}

void SpanExporter::Run() {
  BlockPipeSignal();
  std::vector<Span> spans;
  while (true) {
    spans = buffer_.Take(std::move(spans));
    if (spans.empty()) break;
    SendAll(spans);
    TellDropped(0);
  }
  ended_.Notify();
}

void SpanExporter::SendAll(absl::Span<const Span> spans) {
  while (!spans.empty()) {
    const auto part = spans.subspan(0, kMostPerRequest);
    const bool taken = Send(part);
    spans.remove_prefix(part.size());
    if (taken || !stopping_.HasBeenNotified()) continue;
    // A collector that is away must not delay the end of the server.
    Count(SpanOutcome::kFailed, spans.size());
    return;
  }
}

bool SpanExporter::Send(absl::Span<const Span> spans) {
  const std::string body = BodyOf(options_.resource, spans);
  CollectorAnswer answer;
  for (int tries = 1; tries <= kMostTries; ++tries) {
    // At the end of the server, one more try is the last.
    const bool last = tries == kMostTries || stopping_.HasBeenNotified();
    answer = collector_.Send(body);
    if (answer.taken || !answer.may_retry || last) break;
    stopping_.WaitForNotificationWithTimeout(
        WaitBeforeTry(tries, options_.first_wait, answer.retry_after));
  }
  const uint64_t lost = answer.taken
                            ? std::min<uint64_t>(answer.rejected, spans.size())
                            : spans.size();
  Count(SpanOutcome::kSent, spans.size() - lost);
  Count(SpanOutcome::kFailed, lost);
  if (lost > 0) Tell(answer, lost);
  return answer.taken;
}

void SpanExporter::Count(SpanOutcome outcome, uint64_t spans) {
  if (spans > 0) options_.count(outcome, spans);
}

void SpanExporter::TellDropped(size_t spans) {
  size_t told = 0;
  {
    absl::MutexLock lock(&drops_mutex_);
    untold_drops_ += spans;
    const absl::Time now = absl::Now();
    if (untold_drops_ == 0 || now < next_drop_message_) return;
    next_drop_message_ = now + kBetweenMessages;
    told = std::exchange(untold_drops_, 0);
  }
  spdlog::warn(
      "spans were dropped, because too many wait for the collector of traces "
      "url={} spans={} limit={}",
      options_.url.Text(), told, options_.buffer_limit);
}

void SpanExporter::Tell(const CollectorAnswer& answer, size_t spans) {
  const absl::Time now = absl::Now();
  if (now < next_message_) return;
  next_message_ = now + kBetweenMessages;
  spdlog::warn(
      "the collector of traces did not take spans url={} spans={} "
      "reason=\"{}\"",
      options_.url.Text(), spans, answer.problem);
}

}  // namespace gpupool::server
