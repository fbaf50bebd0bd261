// A collector of OTLP over HTTP on a port of its own, which keeps what it is
// sent and answers as a test says.
#pragma once

#include <httplib.h>

#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gpupool/otlp/v1/trace.pb.h"
#include "server/trace/collector_url.h"
#include "server/trace/span_exporter.h"
#include "tests/wait_until.h"

namespace gpupool::server {

// `traceparent` of a client that traces, and the id of its span.
inline constexpr char kSampledParent[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
inline constexpr char kSampledSpan[] = "\xb7\xad\x6b\x71\x69\x20\x33\x31";

class TestCollector {
 public:
  struct Answer {
    int status = 200;
    std::string retry_after = "";
    std::string body = "";
  };

  TestCollector() {
    server_.set_keep_alive_timeout(1);
    server_.Post("/v1/traces", [this](const httplib::Request& request,
                                      httplib::Response& response) {
      Take(request, response);
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    WaitUntil([this] { return server_.is_running(); });
  }
  ~TestCollector() {
    server_.stop();
    thread_.join();
  }

  CollectorUrl url() const {
    return *ParseCollectorUrl(absl::StrCat("http://127.0.0.1:", port_));
  }

  // Returns options for sending spans here at once.
  SpanExporterOptions options() const {
    SpanExporterOptions options;
    options.url = url();
    options.interval = absl::Milliseconds(1);
    return options;
  }

  // Gives this answer to the next request that has none yet. Others get 200.
  void AnswerNext(Answer answer) {
    absl::MutexLock lock(&mutex_);
    answers_.push_back(std::move(answer));
  }

  int requests() const {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }
  // Returns the spans of the requests that were answered with status 200.
  std::vector<otlp::v1::Span> spans() const {
    absl::MutexLock lock(&mutex_);
    return spans_;
  }
  otlp::v1::ResourceSpans resource() const {
    absl::MutexLock lock(&mutex_);
    return resource_;
  }
  // Returns the first span of the name, once it is there.
  std::optional<otlp::v1::Span> Await(const std::string& name) const {
    std::optional<otlp::v1::Span> found;
    WaitUntil([&] {
      for (const otlp::v1::Span& span : spans()) {
        if (span.name() == name && !found) found = span;
      }
      return found.has_value();
    });
    return found;
  }

 private:
  void Take(const httplib::Request& request, httplib::Response& response) {
    absl::MutexLock lock(&mutex_);
    ++requests_;
    Answer answer;
    if (!answers_.empty()) {
      answer = std::move(answers_.front());
      answers_.pop_front();
    }
    otlp::v1::ExportTraceRequest message;
    const bool parsed =
        request.get_header_value("Content-Type") == "application/x-protobuf" &&
        message.ParseFromString(request.body);
    response.status = parsed ? answer.status : 400;
    response.body = answer.body;
    if (!answer.retry_after.empty()) {
      response.set_header("Retry-After", answer.retry_after);
    }
    if (response.status != 200) return;
    for (const auto& resource : message.resource_spans()) {
      resource_ = resource;
      for (const auto& scope : resource.scope_spans()) {
        spans_.insert(spans_.end(), scope.spans().begin(), scope.spans().end());
      }
    }
  }

  httplib::Server server_;
  int port_ = 0;
  mutable absl::Mutex mutex_;
  std::deque<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  int requests_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<otlp::v1::Span> spans_ ABSL_GUARDED_BY(mutex_);
  otlp::v1::ResourceSpans resource_ ABSL_GUARDED_BY(mutex_);  // the last
  std::thread thread_;
};

}  // namespace gpupool::server
